//! Computes ranges and ticks of axes from data.

use super::figure::AxisSpec;
use super::unit::minus;
use schemars::JsonSchema;
use serde::Deserialize;

/// How values are mapped to positions on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear: equal differences have equal distances.
    #[default]
    Linear,
    /// Logarithmic: equal ratios have equal distances; only positive values are drawn.
    Log,
}

/// Values above this limit are not drawn; on logarithmic axes neither are values below its reciprocal.
const LARGEST: f64 = 1e60;

/// A tick: a position with a label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

/// An axis whose range and ticks are fixed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub scale: Scale,
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<Tick>,
    /// Positions of fine grid lines without labels.
    pub minor: Vec<f64>,
}

impl Axis {
    /// Returns an axis with about `ticks` ticks. Unless `spec` sets the range, it includes `values` and `others`; with `tight` it
    /// ends at the last value, otherwise at a tick. `None` if there is no value to draw or the range is too large.
    pub(super) fn fit(
        spec: &AxisSpec,
        values: &[f64],
        others: &[f64],
        ticks: usize,
        tight: bool,
    ) -> Option<Axis> {
        let usable = |value: &f64| match spec.scale {
            Scale::Linear => value.abs() <= LARGEST,
            Scale::Log => (1.0 / LARGEST..=LARGEST).contains(value),
        };
        let values: Vec<f64> = values.iter().copied().filter(usable).collect();
        let all = || values.iter().chain(others).copied().filter(|value| usable(value));
        let low = spec.range[0].or(all().reduce(f64::min))?;
        let high = spec.range[1].or(all().reduce(f64::max))?;
        let (low, high) = (low.min(high), low.max(high));
        if !usable(&low) || !usable(&high) {
            return None;
        }
        match spec.scale {
            Scale::Linear => Some(linear(spec, low, high, ticks.max(2), tight)),
            Scale::Log => Some(logarithmic(spec, low, high, &values, ticks.max(2), tight)),
        }
    }

    /// Returns an axis with named positions 0, 1, …
    pub(super) fn of_categories(names: &[String]) -> Axis {
        let tick = |(at, name): (usize, &String)| Tick { at: at as f64, label: name.clone() };
        let ticks: Vec<Tick> = names.iter().enumerate().map(tick).collect();
        let high = names.len() as f64 - 0.5;
        Axis { scale: Scale::Linear, low: -0.5, high, ticks, minor: Vec::new() }
    }

    /// Returns the position of `value` along the axis: 0 at the low end, 1 at the high end.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.is_finite().then_some(place)
    }

    /// Whether the axis is linear and leaves out zero, so that lengths on it do not compare as the values do.
    pub(super) fn is_cut(&self) -> bool {
        self.scale == Scale::Linear && (self.low > 0.0 || self.high < 0.0)
    }

    /// Returns whether a tick is within the range, up to rounding.
    fn holds(&self, at: f64) -> bool {
        self.place(at).is_some_and(|place| (-1e-9..=1.0 + 1e-9).contains(&place))
    }
}

/// Returns a linear axis.
fn linear(spec: &AxisSpec, low: f64, high: f64, ticks: usize, tight: bool) -> Axis {
    let (mut low, mut high) = (low, high);
    // The range includes zero unless that would squeeze the values too much.
    if spec.range[0].is_none() && low > 0.0 && low < 0.7 * high && !tight {
        low = 0.0;
    }
    if spec.range[1].is_none() && high < 0.0 && high > 0.7 * low && !tight {
        high = 0.0;
    }
    if high - low <= 1e-9 * high.abs().max(low.abs()) {
        let room = if high == 0.0 { 1.0 } else { 0.1 * high.abs() };
        (low, high) = (low - if low == 0.0 { 0.0 } else { room }, high + room);
    }
    let (factor, name) = spec.unit.multiple(low.abs().max(high.abs()));
    let step = nice_step((high - low) / factor / ticks as f64);
    if !tight {
        let snug = 1e-6 * step;
        if spec.range[0].is_none() {
            low = ((low / factor + snug) / step).floor() * step * factor;
        }
        if spec.range[1].is_none() {
            high = ((high / factor - snug) / step).ceil() * step * factor;
        }
    }
    let places = i32::from(is_quarter(step)) - step.log10().floor() as i32;
    let decimals = usize::try_from(places).unwrap_or(0);
    let first = (low / factor / step - 1e-6).ceil() as i64;
    let last = (high / factor / step + 1e-6).floor() as i64;
    let tick = |index: i64| {
        let scaled = index as f64 * step;
        let label = match index {
            0 => "0".to_owned(),
            _ => format!("{}{name}", digits(scaled, decimals)),
        };
        Tick { at: scaled * factor, label }
    };
    let ticks = (first..=last).take(100).map(tick).collect();
    Axis { scale: Scale::Linear, low, high, ticks, minor: Vec::new() }
}

/// Returns whether a step, such as 2.5, needs one more decimal.
fn is_quarter(step: f64) -> bool {
    let mantissa = step / 10f64.powf(step.log10().floor());
    (mantissa - 2.5).abs() < 1e-6
}

/// Returns the smallest step of at least `least` that is 1, 2, 2.5 or 5 times a power of ten.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let found = [1.0, 2.0, 2.5, 5.0].into_iter().find(|step| step * power >= least * (1.0 - 1e-9));
    found.unwrap_or(10.0) * power
}

/// Returns a logarithmic axis.
fn logarithmic(
    spec: &AxisSpec,
    low: f64,
    high: f64,
    values: &[f64],
    ticks: usize,
    tight: bool,
) -> Axis {
    let room = if high / low < 1.0 + 1e-9 { 2f64 } else { (high / low).powf(0.04) };
    let low = if spec.range[0].is_none() { low / room } else { low };
    let high = if spec.range[1].is_none() { high * room } else { high };
    let mut axis = Axis { scale: Scale::Log, low, high, ticks: Vec::new(), minor: Vec::new() };
    let decades = spec.unit.decades(low, high);
    // Ticks too close to the next decade are left out.
    let between = |factors: &'static [f64], room: f64| {
        decades.windows(2).flat_map(move |pair| {
            let of = factors.iter().map(move |factor| factor * pair[0]);
            of.filter(move |at| at * room <= pair[1])
        })
    };
    let at = |factors: &'static [f64]| between(factors, 1.3);
    let within = |at: &f64| axis.holds(*at);
    let distinct = distinct(values);
    let tens: Vec<f64> = decades.iter().copied().filter(within).collect();
    let chosen =
        if tight && (2..=ticks + 2).contains(&distinct.len()) && spread(&distinct, low, high) {
            distinct
        } else if tens.len() >= 3 {
            let every = tens.len().div_ceil(ticks.max(3));
            tens.iter().copied().step_by(every).collect()
        } else {
            let some: Vec<f64> = at(&[1.0, 2.0, 5.0]).filter(within).collect();
            if some.len() >= 3 {
                some
            } else {
                at(&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]).filter(within).collect()
            }
        };
    let minor = between(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1.0 + 1e-9);
    let minor = minor.filter(within).take(100).collect();
    axis.ticks =
        chosen.into_iter().map(|at| Tick { at, label: spec.unit.write_whole(at) }).collect();
    axis.minor = minor;
    axis
}

/// Returns the distinct values, in ascending order.
fn distinct(values: &[f64]) -> Vec<f64> {
    let mut distinct = values.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    distinct
}

/// Returns whether labels at `values` on a logarithmic axis have enough room.
fn spread(values: &[f64], low: f64, high: f64) -> bool {
    let least = (high / low).ln() / 16.0;
    values.windows(2).all(|pair| (pair[1] / pair[0]).ln() >= least)
}

/// Formats a number with `decimals` decimals, or as a power of ten if that would be long.
fn digits(value: f64, decimals: usize) -> String {
    let long = decimals > 4 || value.abs() >= 1e6;
    minus(&if long { format!("{value:.2e}") } else { format!("{value:.decimals$}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn labels(spec: AxisSpec, values: &[f64], tight: bool) -> Vec<String> {
        let axis = Axis::fit(&spec, values, &[], 5, tight);
        axis.into_iter().flat_map(|axis| axis.ticks).map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_axis_tick_labels_share_one_unit_prefix() {
        let spec = AxisSpec { unit: Unit::Seconds, ..AxisSpec::default() };
        let all = labels(spec, &[0.003, 0.051], false);
        assert_eq!(all, ["0", "20 ms", "40 ms", "60 ms"]);
    }

    #[test]
    fn logarithmic_ticks_are_at_powers_of_ten_or_at_the_plotted_values() {
        let spec = AxisSpec { unit: Unit::Seconds, scale: Scale::Log, ..AxisSpec::default() };
        assert_eq!(labels(spec, &[0.001, 1.0], false), ["1 ms", "10 ms", "100 ms", "1 s"]);
        let spec = AxisSpec { scale: Scale::Log, ..AxisSpec::default() };
        assert_eq!(labels(spec, &[1.0, 2.0, 4.0, 8.0], true), ["1", "2", "4", "8"]);
    }

    #[test]
    fn logarithmic_time_ticks_are_whole_seconds_minutes_or_hours() {
        let spec = AxisSpec { unit: Unit::Seconds, scale: Scale::Log, ..AxisSpec::default() };
        let all = labels(spec.clone(), &[0.5, 5000.0], false);
        assert_eq!(all, ["1 s", "10 s", "1 min", "10 min", "1 h"]);
        let all = labels(spec.clone(), &[200.0, 4000.0], false);
        assert_eq!(all, ["5 min", "10 min", "20 min", "1 h"]);
        let far = labels(spec, &[1.0, 1e7], false);
        assert_eq!(far, ["1 s", "1 min", "1 h", "100 h"]);
    }

    #[test]
    fn tick_labels_have_as_many_decimals_as_the_tick_spacing_needs() {
        let fit = |values: &[f64]| labels(AxisSpec::default(), values, false);
        assert_eq!(fit(&[0.0, 100.0])[1], "20");
        assert_eq!(fit(&[0.0, 125.0])[1], "25");
        assert_eq!(fit(&[0.0, 1.25])[1], "0.25");
    }

    #[test]
    fn an_axis_is_fitted_to_a_single_value_and_absent_without_valid_values() {
        let fit = |values: &[f64]| Axis::fit(&AxisSpec::default(), values, &[], 5, false);
        assert!(fit(&[3.0]).is_some_and(|axis| axis.low < 3.0 && axis.high > 3.0));
        assert!(fit(&[0.0]).is_some_and(|axis| axis.low <= 0.0 && axis.high > 0.0));
        assert_eq!(fit(&[f64::NAN]), None);
        let log = AxisSpec { scale: Scale::Log, ..AxisSpec::default() };
        assert_eq!(Axis::fit(&log, &[0.0, -1.0], &[], 5, false), None);
    }
}
