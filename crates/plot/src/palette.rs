//! Colours that people with any kind of colour vision can tell apart.

/// A colour: red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Colour theme of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Dark on white, for paper.
    #[default]
    Light,
    /// Light on nearly black, for dark pages and slides.
    Dark,
    /// As the reader's page: SVG has the colours of both themes, and the viewer chooses. Pixels are dark on white.
    Auto,
}

impl Theme {
    /// Returns the colour that this theme uses in place of `colour`, which is for a white background.
    pub(super) fn paint(self, colour: Colour) -> Colour {
        let dark = || ON_DARK.iter().find(|(light, _)| *light == colour);
        match self {
            Theme::Light | Theme::Auto => colour,
            Theme::Dark => dark().map_or(colour, |(_, dark)| *dark),
        }
    }
}

/// Returns an SVG style sheet that paints a figure in the dark theme where the page around it is dark.
pub(super) fn dark_style() -> String {
    let rules = dark_rules();
    format!("<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>\n")
}

/// Returns the rules of [`dark_style`].
pub(super) fn dark_rules() -> String {
    let hex = |Colour(red, green, blue): Colour| format!("#{red:02X}{green:02X}{blue:02X}");
    let rule = |(light, dark): &(Colour, Colour)| {
        let (light, dark) = (hex(*light), hex(*dark));
        let set = |name: &str| format!("[{name}=\"{light}\"]{{{name}:{dark}}}\n");
        set("fill") + &set("stroke")
    };
    ON_DARK.iter().map(rule).collect()
}

/// Colour of text and frames.
pub(super) const INK: Colour = Colour(38, 38, 38);
/// Colour of less important text.
pub(super) const GREY: Colour = Colour(110, 110, 110);
/// Colour of grid lines.
pub(super) const GRID: Colour = Colour(228, 228, 228);
/// Colour of grid lines between powers of ten.
pub(super) const FINE_GRID: Colour = Colour(242, 242, 242);
/// Colour of the background.
pub(super) const PAPER: Colour = Colour(255, 255, 255);

/// Okabe and Ito's colours (2008), in descending order of contrast on white.
const OKABE_ITO: [Colour; 8] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(64, 64, 64),
    Colour(158, 148, 20),
];

/// Replacements for colours on a dark background. Series keep their hue and get lighter until their contrast is 4.5 or more.
const ON_DARK: [(Colour, Colour); 11] = [
    (INK, Colour(230, 230, 230)),
    (GREY, Colour(160, 160, 160)),
    (GRID, Colour(58, 58, 62)),
    (FINE_GRID, Colour(42, 42, 46)),
    (PAPER, Colour(24, 24, 27)),
    (OKABE_ITO[0], Colour(64, 156, 222)),
    (OKABE_ITO[1], Colour(240, 128, 50)),
    (OKABE_ITO[2], Colour(38, 190, 145)),
    (OKABE_ITO[3], Colour(222, 150, 188)),
    (OKABE_ITO[6], Colour(200, 200, 200)),
    (OKABE_ITO[7], Colour(196, 186, 60)),
];

/// Returns the colour of the `index`-th series; colours repeat after eight.
pub fn colour(index: usize) -> Colour {
    OKABE_ITO[index % OKABE_ITO.len()]
}

/// Returns the dashes of the `index`-th series. The first eight are solid; later ones are dashed, so that they differ although
/// colours repeat.
pub(super) fn dash(index: usize) -> Option<[f64; 2]> {
    match index / OKABE_ITO.len() {
        0 => None,
        1 => Some([6.0, 3.0]),
        2 => Some([2.0, 2.5]),
        _ => Some([10.0, 3.0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contrast ratio (Web Content Accessibility Guidelines 2.2, section 1.4.3).
    fn contrast(a: Colour, b: Colour) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let luminance = |Colour(red, green, blue): Colour| {
            0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    #[test]
    fn series_and_text_have_enough_contrast_on_a_dark_background() {
        let ground = Theme::Dark.paint(PAPER);
        for colour in OKABE_ITO.into_iter().chain([INK, GREY]) {
            let ratio = contrast(Theme::Dark.paint(colour), ground);
            assert!(ratio >= 4.5, "{colour:?}: {ratio}");
        }
    }

    #[test]
    fn series_differ_from_each_other_in_both_themes() {
        for theme in [Theme::Light, Theme::Dark] {
            let mut seen: Vec<Colour> = Vec::new();
            for colour in OKABE_ITO.map(|colour| theme.paint(colour)) {
                assert!(!seen.contains(&colour), "{theme:?} {colour:?}");
                seen.push(colour);
            }
        }
    }
}
