//! Figures as SVG in the page.

use super::words::marked;
use crate::plot::{self, Figure, Inline, Panel};
use maud::{Markup, PreEscaped, html};

/// Returns a figure with its title above it, its values on hover, and what it shows in words; `number` is its number on the page.
pub(super) fn figure(figure: &Figure, number: usize) -> Markup {
    let bare = Figure { title: String::new(), subtitle: String::new(), ..figure.clone() };
    let title = match figure.title.is_empty() {
        true => format!("Figure {number}"),
        false => format!("Figure {number}: {}", figure.title),
    };
    html! {
        figure {
            figcaption {
                (marked(&title)) "."
                @if !figure.subtitle.is_empty() { " " (marked(&figure.subtitle)) "." }
            }
            @match plot::inline(&bare) {
                Ok(drawn) => (both(&drawn, &bare, &title, &description(figure), number)),
                Err(why) => p { "This figure cannot be drawn: " (why.to_string()) "." },
            }
        }
    }
}

/// Width of figures for phones [px].
const NARROW: u32 = 380;

/// Returns the figure for wide screens and paper and, if its labels permit, one with the same content for phones.
fn both(drawn: &Inline, figure: &Figure, title: &str, description: &str, number: usize) -> Markup {
    let narrow = plot::inline(&Figure { width: NARROW, columns: 1, ..figure.clone() });
    match narrow {
        Ok(narrow) => html! {
            (svg(drawn, (title, description), &format!("figure-{number}"), "wide"))
            (svg(&narrow, (title, description), &format!("figure-{number}-narrow"), "narrow"))
        },
        Err(_) => svg(drawn, (title, description), &format!("figure-{number}"), "only"),
    }
}

fn svg(drawn: &Inline, (title, description): (&str, &str), id: &str, class: &str) -> Markup {
    let (width, height) = drawn.size;
    let (title_id, description_id) = (format!("{id}-title"), format!("{id}-text"));
    html! {
        div class=(format!("scroll drawing {class}")) role="region" tabindex="0"
            aria-label=(format!("{title}, drawing")) {
            svg role="img" width=(width) height=(height) viewBox=(drawn.view_box())
                aria-labelledby=(title_id) aria-describedby=(description_id)
                stroke-linejoin="round" stroke-linecap="round" {
                title id=(title_id) { (title) }
                desc id=(description_id) { (description) }
                // Shapes are made by plotters, which escapes their texts.
                (PreEscaped(&drawn.shapes))
                g.hints fill="none" pointer-events="all" {
                    @for hint in &drawn.hints {
                        @let [left, top, width, height] = hint.place;
                        rect x=(left) y=(top) width=(width) height=(height) { title { (hint.text) } }
                    }
                }
            }
        }
    }
}

/// Says what is drawn on which axes.
fn description(figure: &Figure) -> String {
    let named = |names: Vec<&str>| {
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if names.is_empty() { String::new() } else { format!(" for {}", names.join(", ")) }
    };
    let one = |panel: &Panel| match panel {
        Panel::Lines(lines) => {
            let names = lines.series.iter().map(|series| series.name.as_str()).collect();
            let x = if lines.x.label.is_empty() { "position" } else { &lines.x.label };
            format!("{} over {x}{}.", lines.y.label, named(names))
        }
        Panel::Bars(bars) => {
            let names = bars.bars.iter().map(|bar| bar.name.as_str()).collect();
            format!("Bars of {}{}.", bars.x.label, named(names))
        }
        Panel::Heat(heat) => {
            let names = heat.rows.iter().map(String::as_str).collect();
            format!("Table of values as colours, {}{}.", heat.label, named(names))
        }
    };
    figure.panels.iter().map(one).collect::<Vec<_>>().join(" ")
}
