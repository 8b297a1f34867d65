"""Charts and images of loss surfaces as SVG text, for light and dark pages."""
