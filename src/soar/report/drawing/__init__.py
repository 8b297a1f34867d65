"""Charts and pictures of loss surfaces as SVG text, for light and dark pages."""
