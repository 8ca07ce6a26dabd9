//! The font of every figure, part of the program: no system fonts are needed, and pixels are the
//! same everywhere. SVG names the common fonts of the same widths.

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::sync::OnceLock;

/// The name under which the font is registered, and what SVG asks its viewer for.
const FAMILY: &str = "Liberation Sans, Arimo, Helvetica, Arial, sans-serif";

/// Plotters' font sizes are this many ems; the fonts' ascent and descent sum to the same.
const EM: f64 = 1.24;

static REGISTERED: OnceLock<bool> = OnceLock::new();

/// The font at `size` px per em.
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

/// Room to leave for a text [px]: viewers of SVG may lack fonts of our widths and take wider ones.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    const WIDER: f64 = 1.18;
    WIDER * measured(text, size, bold)
}

/// How wide a text is in our font [px].
fn measured(text: &str, size: f64, bold: bool) -> f64 {
    const FINER: f64 = 16.0;
    let measured = font(size * FINER, bold).box_size(text);
    measured.map_or(0.0, |(width, _)| f64::from(width) / FINER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_helvetica() {
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
