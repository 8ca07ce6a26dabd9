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

/// Returns the text if it fits into `room` px, otherwise its beginning and its end around an ellipsis: what tells similar names
/// apart is often at the end.
pub(super) fn shortened(text: &str, size: f64, bold: bool, room: f64) -> String {
    let letters: Vec<char> = text.chars().collect();
    let kept = |number: usize| {
        let (begin, end) = (number.div_ceil(2), letters.len() - number / 2);
        letters[..begin].iter().chain(['…'].iter()).chain(&letters[end..]).collect::<String>()
    };
    if width(text, size, bold) <= room {
        return text.to_owned();
    }
    let fits = |number: &usize| width(&kept(*number), size, bold) <= room;
    kept((1..letters.len()).rev().find(fits).unwrap_or(0))
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
    fn texts_that_do_not_fit_are_shortened_in_the_middle() {
        let text = "storage.lustre.parallel-fs = 2 GB/s";
        assert_eq!(shortened(text, 11.0, false, 1000.0), text);
        let short = shortened(text, 11.0, false, 100.0);
        let (begin, end) = short.split_once('…').expect("an ellipsis");
        assert!(text.starts_with(begin) && text.ends_with(end), "{short}");
        assert!(begin.chars().count() - end.chars().count() <= 1, "{short}");
        let longer = width(&short, 11.0, false) + width("m", 11.0, false);
        assert!(width(&short, 11.0, false) <= 100.0 && longer > 100.0, "{short}");
        assert_eq!(shortened(text, 11.0, false, 0.0), "…");
    }

    #[test]
    fn symbols_of_units_are_in_the_font() {
        let missing = width("\u{1F600}", 100.0, false);
        for symbol in ["µ", "×", "−", "²", "≤", "…"] {
            assert!(width(symbol, 100.0, false) > 0.0, "{symbol}");
            assert_ne!(width(symbol, 100.0, false), missing, "{symbol}");
        }
    }
}
