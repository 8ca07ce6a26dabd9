//! The font of every figure. It is part of the program, so no system fonts are needed and pixels are the same everywhere. SVG
//! names common fonts with the same widths.

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::sync::OnceLock;

/// Name under which the font is registered; SVG viewers get it as the list of fonts to use.
const FAMILY: &str = "Liberation Sans, Arimo, Helvetica, Arial, sans-serif";

/// Ratio of Plotters' font size to the size of an em. It equals the sum of the fonts' ascent and descent [em].
const EM: f64 = 1.24;

static REGISTERED: OnceLock<bool> = OnceLock::new();

/// Returns the font at `size` px per em.
pub(super) fn font(size: f64, bold: bool) -> FontDesc<'static> {
    REGISTERED.get_or_init(|| {
        let regular = include_bytes!("font/ForebaySans-Regular.ttf");
        let bold = include_bytes!("font/ForebaySans-Bold.ttf");
        register_font(FAMILY, FontStyle::Normal, regular).is_ok()
            && register_font(FAMILY, FontStyle::Bold, bold).is_ok()
    });
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    FontDesc::new(FontFamily::Name(FAMILY), size * EM, style)
}

/// Returns the room to leave for a text [px]. It is wider than the text, as viewers of SVG may lack fonts of the same widths.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    const WIDER: f64 = 1.18;
    WIDER * measured(text, size, bold)
}

/// Returns the width of a text in the built-in font [px].
fn measured(text: &str, size: f64, bold: bool) -> f64 {
    const FINER: f64 = 16.0;
    let measured = font(size * FINER, bold).box_size(text);
    measured.map_or(0.0, |(width, _)| f64::from(width) / FINER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_widths_match_helvetica() {
        // An `i` is 222 and an `m` 833 thousandths of an em.
        assert!((measured("iiiiiiiiii", 10.0, false) - 22.2).abs() < 0.2);
        assert!((measured("mmmmmmmmmm", 10.0, false) - 83.3).abs() < 0.2);
        assert!(width("mm", 10.0, true) > width("mm", 10.0, false));
    }

    #[test]
    fn symbols_of_units_are_in_the_font() {
        let missing = width("\u{1F600}", 100.0, false);
        for symbol in ["µ", "×", "−", "²", "≤"] {
            assert!(width(symbol, 100.0, false) > 0.0, "{symbol}");
            assert_ne!(width(symbol, 100.0, false), missing, "{symbol}");
        }
    }
}
