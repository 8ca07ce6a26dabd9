//! Figures of fits and their samples: curves with 95 % bands from the fit's draws, trials as dots.

use super::cluster_figure;
use crate::law::{CachePolicy, PassOrder};
use crate::measurement::Sample;
use crate::plot::{AxisSpec, Figure, Lines, Panel, Point, Scale, Series, Style, Unit};
use crate::profile::{Fit, Profile};
use crate::stats::quantile;
use std::collections::BTreeMap;

/// Number of points of a curve.
const POINTS: usize = 120;
/// Maximum number of curves in a figure: more colours cannot be told apart.
const CURVES: usize = 8;

/// Returns a figure, with a name for its file, for each fit of a kind that can be drawn.
pub(super) fn figures(profile: &Profile, samples: &[Sample]) -> Vec<(String, Figure)> {
    let mut figures: Vec<(String, Figure)> = Vec::new();
    for (path, fit) in profile.fits() {
        let of: Vec<&Sample> = samples.iter().filter(|s| belongs(s, &path, profile)).collect();
        let lines = match path[0].as_str() {
            "read" => read(fit, &of),
            "storage" => match shared(fit, &of) {
                Some(lines) => lines,
                None => continue,
            },
            "decode" => decode(fit, &of),
            "step" => step(fit, &of),
            "queue" => queue(fit, &of),
            "cores" => cores(fit, &of, profile.host.cores),
            "cache" => cache(&path[1], fit, &of),
            "transport" => transport(fit, &of),
            _ => continue,
        };
        let usable = |series: &Series| !series.points.is_empty();
        if lines.series.iter().any(usable) {
            let trials = if of.is_empty() { "" } else { "; dots are trials" };
            let title = format!("{}: {}{trials}", path.join(" "), "fit with 95 % band");
            let figure = Figure { title, panels: vec![Panel::Lines(lines)], ..Figure::default() };
            let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let plain: String = path.join("-").chars().map(safe).collect();
            // `a.b` and `a-b` are different fits; their figures need different files.
            let taken = |name: &String| figures.iter().any(|(other, _)| other == name);
            let numbered = (2..).map(|number| format!("{plain}-{number}"));
            let mut names = std::iter::once(plain.clone()).chain(numbered);
            let name = names.find(|name| !taken(name)).unwrap_or(plain);
            figures.push((name, figure));
        }
    }
    figures.extend(cluster_figure::figures(profile, samples));
    figures
}

/// Returns whether the fit at `path` used `sample`.
fn belongs(sample: &Sample, path: &[String], profile: &Profile) -> bool {
    let variant = |label: &str, other: String| {
        let whole = format!("{}-{other}", sample.label(label));
        let fits = if path[0] == "read" { &profile.read } else { &profile.decode };
        if fits.contains_key(&whole) { path[1] == whole } else { path[1] == sample.label(label) }
    };
    sample.excluded.is_none()
        && sample.seconds_each() > 0.0
        && match path[0].as_str() {
            "read" => {
                sample.probe == "read" && variant("access", sample.label("layout").to_owned())
            }
            "storage" => {
                sample.probe == "shared-read"
                    && sample.label("access") == path[1]
                    && !sample.labels.contains_key(crate::fit::AGAIN)
            }
            "decode" => {
                let resize = sample.settings.get("resize").copied().unwrap_or(0.0);
                sample.probe == "decode"
                    && sample.settings.get("threads").is_none_or(|threads| *threads == 1.0)
                    && variant("format", resize.to_string())
            }
            "step" => {
                let labels = (sample.label("model"), sample.label("device"));
                sample.probe == "step" && labels == (path[1].as_str(), path[2].as_str())
            }
            "cores" => sample.probe == "decode",
            "transport" => {
                let kind = format!("{}-{}", sample.label("collective"), sample.setting("ranks"));
                let labels = (sample.label("transport"), kind.as_str());
                sample.probe == "collective" && labels == (path[1].as_str(), path[2].as_str())
            }
            kind => sample.probe == kind,
        }
}

/// Returns a point of a curve at `x`: the value of the fit and the 95 % interval over the fit's draws.
fn point(fit: &Fit, x: f64, law: impl Fn(&Fit) -> Option<f64>) -> Point {
    let y = law(fit).filter(|y| y.is_finite());
    let drawn = (0..fit.draws.len()).filter_map(|index| law(&fit.drawn(index)));
    let mut drawn: Vec<f64> = drawn.filter(|y| y.is_finite()).collect();
    drawn.sort_by(f64::total_cmp);
    let band = quantile(&drawn, 0.025).zip(quantile(&drawn, 0.975));
    Point { x, y, band: band.map(|(low, high)| [low, high]), ..Point::default() }
}

/// Returns a curve with points from `low` to `high` at equal ratios.
fn curve(fit: &Fit, [low, high]: [f64; 2], law: impl Fn(&Fit, f64) -> Option<f64>) -> Vec<Point> {
    if !(low > 0.0 && high >= low) {
        return Vec::new();
    }
    let at = |index: usize| low * (high / low).powf(index as f64 / (POINTS - 1) as f64);
    (0..POINTS).map(|index| point(fit, at(index), |fit| law(fit, at(index)))).collect()
}

/// Curves of a figure. Each curve is followed by the dots of its trials, in the same colour.
#[derive(Default)]
struct Curves(Vec<Series>);

impl Curves {
    fn add(&mut self, name: String, points: Vec<Point>, dots: Vec<(f64, f64)>) {
        let index = self.0.len() / 2;
        let dot = |(x, y): (f64, f64)| Point { x, y: Some(y), ..Point::default() };
        let dots = dots.into_iter().map(dot).collect();
        self.0.push(Series { name, points, index, style: Style::Line });
        self.0.push(Series { name: String::new(), points: dots, index, style: Style::Dots });
    }

    /// Shifts the dots of each curve on a logarithmic axis, so that dots of several curves at the same x stand side by side.
    fn side_by_side(&mut self) {
        /// Distance between the dots of neighbouring curves, as a ratio.
        const APART: f64 = 1.02;
        let middle = (self.0.len() as f64 / 2.0 - 1.0) / 2.0;
        for series in self.0.iter_mut().filter(|series| series.style == Style::Dots) {
            let shift = APART.powf(series.index as f64 - middle);
            series.points.iter_mut().for_each(|point| point.x *= shift);
        }
    }

    fn lines(mut self, x: AxisSpec, y: AxisSpec, legend: &str) -> Lines {
        if x.scale == Scale::Log {
            self.side_by_side();
        }
        Lines {
            x,
            y,
            series: self.0,
            marks: Vec::new(),
            labels: Vec::new(),
            legend: legend.to_owned(),
            legend_shown: true,
            categories: Vec::new(),
            shares_x: false,
        }
    }
}

fn axis(label: &str, unit: Unit, scale: Scale) -> AxisSpec {
    AxisSpec { label: label.to_owned(), unit, scale, ..AxisSpec::default() }
}

/// Returns the distinct positive values, ascending; every k-th value if there are more than [`CURVES`].
fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let every = values.len().div_ceil(CURVES).max(1);
    values.into_iter().step_by(every).collect()
}

/// Returns the plot of throughput [B/s] by size of a read, with a curve for each number of readers.
fn read(fit: &Fit, samples: &[&Sample]) -> Lines {
    let mut readers = distinct(samples.iter().map(|s| s.setting("readers")));
    if readers.is_empty() {
        readers = distinct(fit.range.get("readers").into_iter().flatten().copied());
    }
    let range = fit.range.get("size").copied().unwrap_or([0.0; 2]);
    let mut curves = Curves::default();
    for readers in readers {
        let law =
            |fit: &Fit, size: f64| Some(size * fit.read()?.requests_per_second(size, readers));
        let of = samples.iter().filter(|s| s.setting("readers") == readers);
        let dots = of.map(|s| (s.setting("size"), s.setting("size") / s.seconds_each())).collect();
        curves.add(readers.to_string(), curve(fit, range, law), dots);
    }
    let x = axis("Size of a read", Unit::Bytes, Scale::Log);
    curves.lines(x, axis("Of all readers", Unit::BytesPerSecond, Scale::Log), "Readers")
}

/// Returns the plot of the throughput of all nodes together [B/s] by their number, with a curve for each number of threads and size of a
/// file; `None` for a fit of other operations than reads.
fn shared(fit: &Fit, samples: &[&Sample]) -> Option<Lines> {
    fit.shared_read().filter(|_| !samples.is_empty())?;
    let mut kinds: Vec<(f64, f64)> =
        samples.iter().map(|s| (s.setting("streams"), s.setting("size"))).collect();
    kinds.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    kinds.dedup();
    let range = fit.range.get("nodes").copied().unwrap_or([0.0; 2]);
    let mut curves = Curves::default();
    for (streams, size) in kinds.into_iter().take(CURVES) {
        let law = |fit: &Fit, nodes: f64| {
            Some(size * fit.shared_read()?.requests_per_second(size, nodes, streams))
        };
        let of =
            samples.iter().filter(|s| (s.setting("streams"), s.setting("size")) == (streams, size));
        // The samples of all nodes of a trial are one dot.
        let mut trials: BTreeMap<(u64, u32), f64> = BTreeMap::new();
        for sample in of {
            let key = (sample.setting("nodes") as u64, sample.trial);
            *trials.entry(key).or_default() += size / sample.seconds_each();
        }
        let dots = trials.into_iter().map(|((nodes, _), rate)| (nodes as f64, rate)).collect();
        let name = format!("{streams}, {}", crate::report::format::bytes(size));
        curves.add(name, curve(fit, range, law), dots);
    }
    let x = axis("Nodes that read at once", Unit::Number, Scale::Log);
    let y = axis("Of all nodes", Unit::BytesPerSecond, Scale::Log);
    Some(curves.lines(x, y, "Threads a node, size"))
}

/// Returns the plot of core time for decoding an image by pixels, with a curve for each number of stored bytes per pixel.
fn decode(fit: &Fit, samples: &[&Sample]) -> Lines {
    let ratio = |s: &Sample| {
        let ratio = s.setting("bytes") / s.setting("pixels");
        (ratio * 20.0).round().max(1.0) / 20.0
    };
    let middle = |name: &str| fit.range.get(name).map(|[low, high]| (low * high).sqrt());
    let mut ratios = distinct(samples.iter().map(|s| ratio(s)));
    if ratios.is_empty() {
        let middle = middle("bytes").zip(middle("pixels"));
        ratios = distinct(middle.map(|(bytes, pixels)| bytes / pixels).into_iter());
    }
    let range = fit.range.get("pixels").copied().unwrap_or([0.0; 2]);
    let mut curves = Curves::default();
    for of in ratios {
        let law = |fit: &Fit, pixels: f64| Some(fit.decode()?.core_seconds(of * pixels, pixels));
        let of_ratio = samples.iter().filter(|s| ratio(s) == of);
        let dots = of_ratio.map(|s| (s.setting("pixels"), s.core_seconds_each())).collect();
        curves.add(format!("{of:.2}"), curve(fit, range, law), dots);
    }
    let x = axis("Pixels of an image", Unit::Number, Scale::Log);
    curves.lines(x, axis("Core time of an image", Unit::Seconds, Scale::Log), "Bytes per pixel")
}

/// Returns the plot of step time by batch size.
fn step(fit: &Fit, samples: &[&Sample]) -> Lines {
    let range = fit.range.get("batch").copied().unwrap_or([0.0; 2]);
    let law = |fit: &Fit, batch: f64| Some(fit.step()?.seconds(batch) * fit.step_ratio(batch));
    let dots = samples.iter().map(|s| (s.setting("batch"), s.seconds_each())).collect();
    let mut curves = Curves::default();
    curves.add(String::new(), curve(fit, range, law), dots);
    let x = axis("Batch", Unit::Number, Scale::Log);
    curves.lines(x, axis("Time of a step", Unit::Seconds, Scale::Log), "")
}

/// Returns the plot of the time of a message or collective by size.
fn transport(fit: &Fit, samples: &[&Sample]) -> Lines {
    let range = fit.range.get("bytes").copied().unwrap_or([0.0; 2]);
    let law = |fit: &Fit, bytes: f64| Some(fit.transport()?.seconds(bytes, 0.0));
    let dots = samples.iter().map(|s| (s.setting("bytes"), s.seconds_each())).collect();
    let mut curves = Curves::default();
    curves.add(String::new(), curve(fit, [range[0].max(1.0), range[1]], law), dots);
    let x = axis("Size", Unit::Bytes, Scale::Log);
    curves.lines(x, axis("Time", Unit::Seconds, Scale::Log), "")
}

/// Returns the plot of core time for each item of a queue by capacity, number of producers and number of consumers.
fn queue(fit: &Fit, samples: &[&Sample]) -> Lines {
    let key = |s: &Sample| ["capacity", "producers", "consumers"].map(|name| s.setting(name));
    let mut kinds: Vec<[f64; 3]> = samples.iter().map(|s| key(s)).collect();
    kinds.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    kinds.dedup();
    let place = |s: &&Sample| Some(kinds.iter().position(|k| *k == key(s))? as f64);
    let dots = samples.iter().filter_map(|s| Some((place(s)?, s.core_seconds_each()))).collect();
    let law = |fit: &Fit| fit.value("per_item");
    let ends = [-0.5, kinds.len().max(1) as f64 - 0.5];
    let points = ends.map(|x| point(fit, x, law)).to_vec();
    let mut curves = Curves::default();
    curves.add(String::new(), points, dots);
    let x = axis("Capacity, producers, consumers", Unit::Number, Scale::Linear);
    let mut lines = curves.lines(x, axis("Core time of an item", Unit::Seconds, Scale::Linear), "");
    lines.y.range = [Some(0.0), None];
    lines.categories = kinds.iter().map(|[a, b, c]| format!("{a}, {b}, {c}")).collect();
    lines
}

/// Returns the plot of the hit ratio of the page cache in a second pass by bytes of the data set, with a curve for each order
/// of reading.
fn cache(policy: &str, fit: &Fit, samples: &[&Sample]) -> Lines {
    let policy = CachePolicy::TOLD.into_iter().find(|known| known.name() == policy);
    let range = fit.range.get("bytes").copied().unwrap_or([0.0; 2]);
    let mut curves = Curves::default();
    for (name, order) in [("cyclic", PassOrder::Cyclic), ("shuffled", PassOrder::Shuffled)] {
        let law = |fit: &Fit, bytes: f64| Some(policy?.hits(order, fit.value("size")? / bytes));
        let of = samples.iter().filter(|s| s.label("order") == name);
        let dots = of.filter_map(|s| Some((s.setting("bytes"), *s.observed.get("hits")?)));
        curves.add(name.to_owned(), curve(fit, range, law), dots.collect());
    }
    let x = axis("Bytes that are read twice", Unit::Bytes, Scale::Log);
    let mut lines =
        curves.lines(x, axis("Hits of the second time", Unit::Share, Scale::Linear), "Order");
    lines.y.range = [Some(0.0), Some(1.0)];
    lines
}

/// Returns the plot of the speed of a core of `all`, relative to a core that is busy alone, by number of threads.
fn cores(fit: &Fit, samples: &[&Sample], all: f64) -> Lines {
    let most = if all > 0.0 { all.max(1.0) } else { f64::INFINITY };
    let work = |s: &Sample| ["bytes", "pixels"].map(|name| s.setting(name));
    let resize = |s: &Sample| s.settings.get("resize").copied().unwrap_or(0.0);
    let speed = |s: &&Sample| s.seconds_each() * s.setting("threads").min(most);
    let greatest = fit.range.get("threads").map_or(f64::INFINITY, |range| range[1]);
    let mut dots = Vec::new();
    for sample in samples.iter().filter(|s| s.setting("threads") <= greatest) {
        let same = |s: &&&Sample| work(s) == work(sample) && resize(s) == resize(sample);
        let alone = samples.iter().filter(same).filter(|s| s.setting("threads") == 1.0);
        let mut alone: Vec<f64> = alone.map(speed).collect();
        alone.sort_by(f64::total_cmp);
        if let Some(alone) = quantile(&alone, 0.5) {
            dots.push((sample.setting("threads"), alone / speed(sample)));
        }
    }
    let mut points =
        vec![Point { x: 1.0, y: Some(1.0), band: Some([1.0, 1.0]), ..Point::default() }];
    for name in fit.parameters.keys() {
        let threads = name.strip_prefix("speed_").and_then(|n| n.parse::<f64>().ok());
        points.extend(threads.map(|x| point(fit, x, |fit| fit.value(name))));
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut curves = Curves::default();
    curves.add(String::new(), points, dots);
    let x = axis("Threads", Unit::Number, Scale::Log);
    let y = axis("Speed of a core, relative to one alone", Unit::Share, Scale::Linear);
    let mut lines = curves.lines(x, y, "");
    lines.y.range = [Some(0.0), None];
    lines
}
