"""The commands that plan and render; each calls a function of this package."""
