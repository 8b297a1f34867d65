"""Reports: what was found about one or several runs, as a page, Markdown and LaTeX."""
