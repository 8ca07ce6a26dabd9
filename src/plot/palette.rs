//! Colours that people with any kind of colour vision can tell apart.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Text and frames.
pub(super) const INK: Colour = Colour(38, 38, 38);
/// Less important text.
pub(super) const GREY: Colour = Colour(110, 110, 110);
/// Grid lines.
pub(super) const GRID: Colour = Colour(228, 228, 228);
/// Between powers of ten.
pub(super) const FINE_GRID: Colour = Colour(242, 242, 242);
/// Paper.
pub(super) const PAPER: Colour = Colour(255, 255, 255);

/// Okabe and Ito's colours (2008), those with the most contrast on white first.
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

/// The colour of the `index`-th series; they repeat after eight.
pub fn colour(index: usize) -> Colour {
    OKABE_ITO[index % OKABE_ITO.len()]
}

/// The dashes of the `index`-th series: solid for the first eight, so that those after them, whose
/// colours repeat, differ.
pub(super) fn dash(index: usize) -> Option<[f64; 2]> {
    match index / OKABE_ITO.len() {
        0 => None,
        1 => Some([6.0, 3.0]),
        2 => Some([2.0, 2.5]),
        _ => Some([10.0, 3.0]),
    }
}
