"""The words, numbers and letter strings printed in the pictures."""

from collections.abc import Callable, Sequence

import numpy as np

Printed = Callable[[np.random.Generator], str]  # draws a text to print

CHARS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORDS = """HELLO WORLD OPEN CLOSED STOP EXIT SALE CAFE HOTEL TAXI BUS TRAIN PARK BEACH RIVER
MOUNT LAKE TREE BIRD FISH CAT DOG HORSE TIGER LION BEAR WOLF APPLE LEMON BREAD MILK WATER COFFEE
TEA SUGAR SALT PIZZA PASTA SOUP RICE HOUSE ROOM DOOR WINDOW TABLE CHAIR LAMP CLOCK PHONE RADIO
MUSIC VIDEO PHOTO PAPER BOOK PEN LETTER SCHOOL BANK SHOP MARKET FARM CITY TOWN ROAD STREET BRIDGE
NORTH SOUTH EAST WEST SPRING SUMMER WINTER MONDAY FRIDAY SUNDAY JUNE JULY MARCH APRIL RED BLUE
GREEN BLACK WHITE GOLD SILVER IRON STEEL GLASS STONE WOOD PLANT FLOWER ROSE GARDEN FOREST ISLAND
OCEAN STORM CLOUD RAIN SNOW WIND FIRE LIGHT DARK NIGHT DAY MOON STAR SUN PLANET ROCKET SPACE ROBOT
GAME BALL TEAM GOAL RACE START FINISH LEFT RIGHT PUSH PULL ENTER FREE NEW BIG FAST SLOW HOT COLD
YES NO OK HELP INFO NEXT BACK PLAY PAUSE""".split()  # noqa: SIM905
HELD_OUT_WORDS = """ORANGE PEPPER CASTLE TOWER PIANO GUITAR DRAGON KNIGHT VIOLET COPPER MAGNET
PUZZLE QUARTZ JUNGLE WIZARD BOX FOX KEY ZERO SEVEN""".split()  # noqa: SIM905


def made_up_word(rng: np.random.Generator) -> str:
    """A pronounceable string of two to seven letters: reading must not become guessing from a list."""
    n = rng.integers(2, 8)
    start = rng.integers(2)
    kinds = ["AEIOUY", "BCDFGHKLMNPRSTVWZ"]
    return "".join(kinds[(i + start) % 2][rng.integers(len(kinds[(i + start) % 2]))] for i in range(n))


def number(rng: np.random.Generator) -> str:
    """One to six digits."""
    return "".join(str(d) for d in rng.integers(0, 10, rng.integers(1, 7)))


def letters(rng: np.random.Generator) -> str:
    """Two to seven letters, all alike likely."""
    return "".join(CHARS[i] for i in rng.integers(10, 36, rng.integers(2, 8)))


def held_out_word(rng: np.random.Generator) -> str:
    """A word that training never shows."""
    return HELD_OUT_WORDS[rng.integers(len(HELD_OUT_WORDS))]


def random_text(rng: np.random.Generator, words: Sequence[str] = WORDS) -> str:
    """A word, a number, a made-up word, a letter string or a word with a number (1-7 characters)."""
    r = rng.random()
    if r < 0.42:
        return words[rng.integers(len(words))]
    if r < 0.57:
        return number(rng)
    if r < 0.78:
        return made_up_word(rng)
    if r < 0.87:
        return letters(rng)
    short = [w for w in words if len(w) <= 4]
    word = short[rng.integers(len(short))]
    return word + " " + "".join(str(d) for d in rng.integers(0, 10, rng.integers(1, 3)))
