"""Application package."""
