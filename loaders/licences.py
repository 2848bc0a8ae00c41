"""Known licences: their SPDX identifiers, their names on the Hugging Face Hub, and their URLs."""

# SPDX identifiers of licences that the Hub knows; the Hub writes them in lower case.
_SPDX = (
    *("Apache-2.0", "MIT", "CC0-1.0", "CC-BY-3.0", "CC-BY-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0"),
    *("CC-BY-NC-3.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0"),
    *("CC-BY-NC-ND-3.0", "CC-BY-NC-ND-4.0", "ODbL-1.0", "ODC-By-1.0", "PDDL-1.0", "Unlicense"),
)
_BY_NAME = {name.lower(): name for name in _SPDX}
_HUB = {"ODbL-1.0": "odbl", "ODC-By-1.0": "odc-by", "PDDL-1.0": "pddl"}
_SHORT = {short: name for name, short in _HUB.items()}
_FREE = ("public domain",)


def spdx(licence: str) -> str | None:
    """Find the SPDX identifier of a licence; None if this module does not know the licence.

    Example:
        >>> spdx("cc-by 4.0"), spdx("odbl"), spdx("ask me")
        ('CC-BY-4.0', 'ODbL-1.0', None)
    """
    name = licence.strip().lower().replace(" ", "-")
    return _BY_NAME.get(name) or _SHORT.get(name)


def is_known(licence: str) -> bool:
    """Tell whether a licence is a known one with known terms.

    Example:
        >>> is_known("CC0-1.0"), is_known("public domain"), is_known("the user's own; not stated")
        (True, True, False)
    """
    return spdx(licence) is not None or licence.strip().lower() in _FREE


def hub_licence(licence: str) -> dict[str, str]:
    """Return the licence fields of a dataset card's YAML.

    Example:
        >>> hub_licence("CC-BY-4.0"), hub_licence("My Terms"), hub_licence("")
        ({'license': 'cc-by-4.0'}, {'license': 'other', 'license_name': 'my-terms'}, {})
    """
    if not licence:
        return {}
    if (name := spdx(licence)) is not None:
        return {"license": _HUB.get(name, name.lower())}
    return {"license": "other", "license_name": licence.strip().lower().replace(" ", "-")}


def licence_url(licence: str) -> str:
    """Return the SPDX page of a licence, or the given text if SPDX does not list the licence.

    Example:
        >>> licence_url("CC-BY-4.0"), licence_url("My Terms")
        ('https://spdx.org/licenses/CC-BY-4.0.html', 'My Terms')
    """
    name = spdx(licence)
    return licence if name is None else f"https://spdx.org/licenses/{name}.html"
