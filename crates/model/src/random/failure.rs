//! Times between failures.

use super::Generator;
use rand::RngExt;
use rand_distr::{Distribution, Weibull};

/// Samples the time to the next failure from a Weibull distribution with this mean [s] and shape, both above 0. With shape 1 it
/// is exponential.
pub fn time_to_failure(mean: f64, shape: f64, generator: &mut Generator) -> f64 {
    let scale = mean / statrs::function::gamma::gamma(1.0 + 1.0 / shape);
    // The limits on scenarios keep scale and shape positive and finite, so the distribution exists.
    Weibull::new(scale, shape).map_or(mean, |weibull| weibull.sample(generator))
}

/// Samples which of `nodes` nodes fails, each with the same probability.
pub fn failed_node(nodes: u32, generator: &mut Generator) -> u32 {
    generator.random_range(0..nodes.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::{Purpose, Streams};
    use super::*;

    #[test]
    fn times_to_failure_have_the_given_mean_and_shape() {
        // Expectation: the given mean. The share of failures within a tenth of the mean is 1 - exp(-0.1) with shape 1, larger
        // with shape 0.7, smaller with shape 2.
        let streams = Streams::new(1, 0);
        let draws = |shape: f64| -> Vec<f64> {
            let one = |i| time_to_failure(50.0, shape, &mut streams.at(Purpose::Failure, 0, 0, i));
            (0..20_000).map(one).collect()
        };
        let early = |draws: &[f64]| draws.iter().filter(|t| **t < 5.0).count() as f64 / 2e4;
        let [bursts, any, age] = [0.7, 1.0, 2.0].map(draws);
        for draws in [&bursts, &any, &age] {
            let mean = draws.iter().sum::<f64>() / 2e4;
            assert!((mean / 50.0 - 1.0).abs() < 0.04, "{mean}");
        }
        assert!((early(&any) - 0.0952).abs() < 0.008, "{}", early(&any));
        assert!(early(&bursts) > 0.18 && early(&age) < 0.012);
    }
}
