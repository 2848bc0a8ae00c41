"""Options are checked by name: `loaders.check_choice`."""

from loaders.check_choice import check_choice as check_choice
