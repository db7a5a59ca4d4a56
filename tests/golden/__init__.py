"""What earlier releases wrote, which each release must read. ``make.py`` made it from a checkout of that release."""
