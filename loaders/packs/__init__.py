"""What packs of either form share: their splits, work that resumes, and the command's options."""
