"""The sections of the page, one module each: what it shows, how that is measured, and how it is drawn."""
