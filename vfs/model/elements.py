"""Symbols of the chemical elements, by their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NAMES = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr "
    "Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir "
    "Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh "
    "Fl Mc Lv Ts Og"
)
SYMBOLS = tuple(_NAMES.split())


def of_numbers(numbers: Any) -> str:
    """Return the symbols of elements that a file lists by their numbers, with spaces between; "" for anything else."""
    if not isinstance(numbers, Iterable) or isinstance(numbers, str | bytes):
        return ""
    found = [int(one) for one in numbers if str(one).isdecimal() and 0 < int(one) <= len(SYMBOLS)]
    return " ".join(SYMBOLS[one - 1] for one in dict.fromkeys(found))
