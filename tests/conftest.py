"""What every test shares: array shapes and types are checked at run time, as the annotations state them."""

from jaxtyping import install_import_hook

# An int passes for a float, as in PEP 484. Installed here and not by jaxtyping's own pytest option, whose
# parser takes one package only as soon as the checker has arguments.
install_import_hook(
    ["loaders", "evaluation", "generators"],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)
