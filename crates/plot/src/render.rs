//! Draws shapes as SVG and PNG with the backends of plotters.
//!
//! Backends use whole pixels, so shapes are drawn at many times their size. SVG shrinks them by its view box; PNG averages
//! pixels, which also smooths all edges alike.

use super::font::font;
use super::layout::Picture;
use super::palette::{Colour, Theme, dark_style};
use super::shape::{Place, Shape, Side, Text};
use super::{Figure, PlotError, layout};
use plotters::prelude::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, ShapeStyle, TextStyle};

/// Units in an SVG picture for each CSS pixel.
pub(super) const SVG_SCALE: u32 = 10;
/// Pixels in a PNG picture for each CSS pixel.
const PNG_DENSITY: u32 = 2;
/// Drawn pixels along each side of a PNG pixel, before averaging.
const PNG_SAMPLES: u32 = 3;
/// Distance by which the bitmap backend moves text down, so that the vertical middle of the text lies at the same position
/// as in SVG [em].
const BITMAP_RISE: f64 = 0.135;

/// Returns the figure as SVG text.
pub fn svg(figure: &Figure) -> Result<String, PlotError> {
    let picture = layout::picture(figure)?;
    let (width, height) = picture.size;
    let text = drawn(&picture)?;
    let (w, h) = (width * SVG_SCALE, height * SVG_SCALE);
    let large = format!("<svg width=\"{w}\" height=\"{h}\"");
    let small = format!(
        "<svg width=\"{width}\" height=\"{height}\" stroke-linejoin=\"round\" stroke-linecap=\"round\""
    );
    let text = text.replacen(&large, &small, 1);
    Ok(match (figure.theme, text.split_once('\n')) {
        (Theme::Auto, Some((head, body))) => format!("{head}\n{}{body}", dark_style()),
        _ => text,
    })
}

/// Returns the shapes of a picture as SVG, without the element `svg` around them.
pub(super) fn shapes_as_svg(picture: &Picture) -> Result<String, PlotError> {
    let text = drawn(picture)?;
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    Ok(body.trim_end().trim_end_matches("</svg>").to_owned())
}

/// Returns a picture as SVG in units of 0.1 px.
fn drawn(picture: &Picture) -> Result<String, PlotError> {
    let (width, height) = picture.size;
    let mut text = String::new();
    {
        let size = (width * SVG_SCALE, height * SVG_SCALE);
        let backend = SVGBackend::with_string(&mut text, size);
        let mut pen = Pen { backend, scale: f64::from(SVG_SCALE), rise: 0.0, strokes: false };
        picture.shapes.iter().try_for_each(|shape| pen.draw(shape))?;
        pen.backend.present().map_err(|error| PlotError::Backend(error.to_string()))?;
    }
    Ok(text)
}

/// Returns the figure as a PNG file, at twice the resolution of its nominal size.
pub fn png(figure: &Figure) -> Result<Vec<u8>, PlotError> {
    let picture = layout::picture(figure)?;
    let scale = PNG_DENSITY * PNG_SAMPLES;
    let size = (picture.size.0 * scale, picture.size.1 * scale);
    let mut pixels = vec![255u8; size.0 as usize * size.1 as usize * 3];
    {
        let backend = BitMapBackend::with_buffer(&mut pixels, size);
        let mut pen = Pen { backend, scale: f64::from(scale), rise: BITMAP_RISE, strokes: true };
        picture.shapes.iter().try_for_each(|shape| pen.draw(shape))?;
        pen.backend.present().map_err(|error| PlotError::Backend(error.to_string()))?;
    }
    let small = shrink(&pixels, size.0 as usize, PNG_SAMPLES as usize);
    encode(&small, size.0 / PNG_SAMPLES, size.1 / PNG_SAMPLES)
        .map_err(|error| PlotError::Backend(error.to_string()))
}

/// Averages squares of `samples` × `samples` RGB pixels, in rows of `width` pixels.
fn shrink(pixels: &[u8], width: usize, samples: usize) -> Vec<u8> {
    let half = samples * samples / 2;
    let mut small = Vec::with_capacity(pixels.len() / (samples * samples));
    for rows in pixels.chunks_exact(width * 3 * samples) {
        for x in 0..width / samples {
            for channel in 0..3 {
                let at = |dx: usize, dy: usize| (dy * width + x * samples + dx) * 3 + channel;
                let square = (0..samples).flat_map(|dy| (0..samples).map(move |dx| (dx, dy)));
                let sum: usize = square.map(|(dx, dy)| usize::from(rows[at(dx, dy)])).sum();
                small.push(u8::try_from((sum + half) / (samples * samples)).unwrap_or(u8::MAX));
            }
        }
    }
    small
}

/// Encodes RGB pixels as PNG.
fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // 192 dots per inch, so that viewers show the picture at its nominal size.
    let per_metre = 96 * PNG_DENSITY * 10_000 / 254;
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// Draws shapes on a backend.
struct Pen<B> {
    backend: B,
    scale: f64,
    /// Distance by which text is moved down [em].
    rise: f64,
    /// Whether to draw thick lines as areas, since the backend draws poor mitre joints.
    strokes: bool,
}

impl<B: DrawingBackend> Pen<B> {
    fn draw(&mut self, shape: &Shape) -> Result<(), PlotError> {
        match shape {
            Shape::Line { path, colour, width } if self.strokes => {
                self.stroke(path, *colour, width * self.scale)
            }
            Shape::Line { path, colour, width } => {
                let path: Vec<_> = path.iter().map(|place| self.whole(*place)).collect();
                let width = (width * self.scale).round() as u32;
                let style = style(*colour, 1.0).stroke_width(width);
                backend(self.backend.draw_path(path, &style))
            }
            Shape::Area { path, colour, opacity } => {
                let path: Vec<_> = path.iter().map(|place| self.whole(*place)).collect();
                backend(self.backend.fill_polygon(path, &style(*colour, *opacity)))
            }
            Shape::Dot { at, radius, colour } => self.dot(*at, *radius, *colour),
            Shape::Text(text) => self.text(text),
        }
    }

    fn whole(&self, (x, y): Place) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    fn dot(&mut self, at: Place, radius: f64, colour: Colour) -> Result<(), PlotError> {
        let (at, radius) = (self.whole(at), (radius * self.scale).round() as u32);
        backend(self.backend.draw_circle(at, radius, &style(colour, 1.0), true))
    }

    /// Draws a line as one area for each segment and a dot at every joint.
    fn stroke(&mut self, path: &[Place], colour: Colour, width: f64) -> Result<(), PlotError> {
        let style = style(colour, 1.0);
        let half = width / self.scale / 2.0;
        for pair in path.windows(2) {
            let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
            let length = (to_x - x).hypot(to_y - y);
            if length == 0.0 {
                continue;
            }
            let (dx, dy) = (half * (to_y - y) / length, half * (x - to_x) / length);
            let area = [
                (x + dx, y + dy),
                (to_x + dx, to_y + dy),
                (to_x - dx, to_y - dy),
                (x - dx, y - dy),
            ];
            let area = area.map(|place| self.whole(place));
            backend(self.backend.fill_polygon(area, &style))?;
        }
        let joints = path.get(1..path.len().saturating_sub(1)).unwrap_or_default();
        joints.iter().try_for_each(|at| self.dot(*at, half, colour))
    }

    fn text(&mut self, text: &Text) -> Result<(), PlotError> {
        let side = match text.side {
            Side::Left => HPos::Left,
            Side::Middle => HPos::Center,
            Side::Right => HPos::Right,
        };
        let Colour(red, green, blue) = text.colour;
        let colour = RGBColor(red, green, blue);
        let style = TextStyle::from(font(text.size * self.scale, text.bold))
            .color(&colour)
            .pos(Pos::new(side, VPos::Center));
        let at = self.whole((text.at.0, text.at.1 + self.rise * text.size));
        backend(self.backend.draw_text(&text.text, &style, at))
    }
}

/// Returns the style for a colour.
fn style(Colour(red, green, blue): Colour, opacity: f64) -> ShapeStyle {
    ShapeStyle { color: RGBColor(red, green, blue).mix(opacity), filled: true, stroke_width: 1 }
}

/// Converts a backend's error to a [`PlotError`].
fn backend<E: std::fmt::Display>(result: Result<(), E>) -> Result<(), PlotError> {
    result.map_err(|error| PlotError::Backend(error.to_string()))
}
