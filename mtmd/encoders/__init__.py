"""Towers that several projectors share."""
