//! Confidence intervals for rare events: sums over few events of different size.

use statrs::distribution::{ContinuousCDF, Gamma};

/// Returns the 95 % interval of the expected sum of the sizes of events that come at random (a weighted sum of Poisson
/// counts), given the sizes of the observed events. It is the gamma interval of Fay and Feuer (*Confidence intervals
/// for directly standardized rates*, Statistics in Medicine 16, 1997). `largest` is the size that one more event may
/// have. If no event was observed, the interval goes from 0 to 3.69 times `largest`: at this upper limit, one run in
/// forty has no event.
pub fn rare_sum_interval(events: &[f64], largest: f64) -> [f64; 2] {
    let sum: f64 = events.iter().sum();
    let squares: f64 = events.iter().map(|event| event * event).sum();
    let low = gamma_quantile(sum, squares, 0.025);
    let high = gamma_quantile(sum + largest, squares + largest * largest, 0.975);
    [low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY)]
}

/// Returns the quantile `q` of the gamma distribution with this mean and variance; `None` if the variance is 0.
fn gamma_quantile(mean: f64, variance: f64, q: f64) -> Option<f64> {
    let gamma = Gamma::new(mean * mean / variance, mean / variance).ok()?;
    Some(gamma.inverse_cdf(q)).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expectation: the exact limits of Poisson counts (Garwood, 1936) in any table: 0 to 3.69, 0.0253 to 5.57, 1.09
    /// to 10.24, 4.80 to 18.39.
    #[test]
    fn intervals_for_rare_events_match_published_poisson_confidence_limits() {
        for (count, low, high) in
            [(0, 0.0, 3.689), (1, 0.0253, 5.572), (4, 1.090, 10.242), (10, 4.795, 18.390)]
        {
            let [from, to] = rare_sum_interval(&vec![1.0; count], 1.0);
            assert!((from - low).abs() < 1e-3 && (to - high).abs() < 2e-3, "{count}: {from} {to}");
        }
    }

    #[test]
    fn one_large_event_widens_the_confidence_interval_more_than_ten_small_events() {
        let [_, small] = rare_sum_interval(&[1.0; 10], 1.0);
        let [_, large] = rare_sum_interval(&[10.0], 10.0);
        assert!(large > 2.0 * small, "{small} {large}");
    }
}
