//! Upper tails of distributions that are known from a sample: quantiles near 1, also beyond the largest value of the sample.

use super::interval::{mean, normal_quantile, sd};

/// Smallest sample whose tail is fitted; smaller ones count as normally distributed.
const FEWEST: usize = 40;

/// Least and largest number of excesses to which a tail is fitted; in between, a tenth of the sample.
const EXCESSES: (usize, usize) = (10, 20);

/// Least number of values above a quantile for which the quantile is interpolated in the sample; rarer values follow from the fit.
const ENOUGH: f64 = 2.0;

/// The upper tail of a distribution, from a sample.
///
/// Within the sample, quantiles are interpolated. Beyond it, excesses over a high threshold follow the generalised Pareto
/// distribution (Pickands, 1975), fitted by probability-weighted moments (Hosking and Wallis, *Technometrics* 29, 1987).
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// The sample, largest first.
    values: Vec<f64>,
    mean: f64,
    sd: f64,
    fit: Option<Excesses>,
}

/// Generalised Pareto distribution of the excesses over a threshold.
#[derive(Debug, Clone, Copy)]
struct Excesses {
    threshold: f64,
    /// Share of the values above the threshold.
    share: f64,
    scale: f64,
    shape: f64,
}

impl Tail {
    /// Returns the tail of the distribution of `values`.
    pub fn new(mut values: Vec<f64>) -> Tail {
        values.sort_by(|a, b| b.total_cmp(a));
        let (mean, sd) = (mean(&values).unwrap_or(0.0), sd(&values).unwrap_or(0.0));
        let fit = Excesses::fit(&values);
        Tail { values, mean, sd, fit }
    }

    /// Returns the value that is exceeded with `probability`, which is above 0.
    pub fn exceeded_with(&self, probability: f64) -> f64 {
        let rank = probability * self.values.len() as f64;
        match self.fit {
            None => self.mean + self.sd * normal_quantile(1.0 - probability.max(1e-15)),
            Some(fit) if rank < ENOUGH => fit.exceeded_with(probability),
            Some(_) => self.at_rank(rank),
        }
    }

    /// Returns the value with `rank` values above it, interpolated between neighbours.
    fn at_rank(&self, rank: f64) -> f64 {
        let at = (rank - 0.5).clamp(0.0, (self.values.len() - 1) as f64);
        let (first, part) = (at.floor() as usize, at.fract());
        let next = self.values[(first + 1).min(self.values.len() - 1)];
        self.values[first] + part * (next - self.values[first])
    }
}

impl Excesses {
    /// Fits the largest of `values`, which are in descending order; `None` if there are too few.
    fn fit(values: &[f64]) -> Option<Excesses> {
        if values.len() < FEWEST {
            return None;
        }
        let number = (values.len() / 10).clamp(EXCESSES.0, EXCESSES.1);
        let (threshold, n) = (values[number], number as f64);
        // Moments of the excesses, the second one weighted by the share of excesses that are larger.
        let (mut mean, mut weighted) = (0.0, 0.0);
        for (place, value) in values[..number].iter().enumerate() {
            mean += (value - threshold) / n;
            weighted += (value - threshold) / n * (place as f64 + 0.35) / n;
        }
        let share = n / values.len() as f64;
        let apart = mean - 2.0 * weighted;
        if mean <= 0.0 || apart <= 0.0 {
            return Some(Excesses { threshold, share, scale: 0.0, shape: 0.0 });
        }
        // Outside this range the moments do not determine a shape: above 0.5 their variance is infinite; -1 is a uniform distribution.
        let shape = (2.0 - mean / apart).clamp(-1.0, 0.5);
        Some(Excesses { threshold, share, scale: mean * (1.0 - shape), shape })
    }

    fn exceeded_with(self, probability: f64) -> f64 {
        let log = (self.share / probability).ln().max(0.0);
        let excess = match self.shape {
            shape if shape.abs() < 1e-9 => log,
            shape => (shape * log).exp_m1() / shape,
        };
        self.threshold + self.scale * excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use rand_distr::{Distribution, Exp1, LogNormal, StandardNormal};

    fn sample(number: usize, draw: impl Fn(&mut Xoshiro256PlusPlus) -> f64, seed: u64) -> Tail {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        Tail::new((0..number).map(|_| draw(&mut generator)).collect())
    }

    /// Returns the mean of the value exceeded with `probability`, over samples of `number` values.
    fn mean_of(
        number: usize,
        probability: f64,
        draw: impl Fn(&mut Xoshiro256PlusPlus) -> f64 + Copy,
    ) -> f64 {
        let all = (0..200).map(|seed| sample(number, draw, seed).exceeded_with(probability));
        all.sum::<f64>() / 200.0
    }

    #[test]
    fn tails_beyond_the_sample_follow_known_distributions() {
        // System: samples of 1,000 values. Expectation: the value that one of 10,000 exceeds lies within 5 % of the exact one, of
        // normal, exponential, uniform and log-normal distributions.
        let normal = mean_of(1000, 1e-4, |g| g.sample(StandardNormal));
        assert!((normal - 3.719).abs() < 0.19, "{normal}");
        let exponential = mean_of(1000, 1e-4, |g| g.sample(Exp1));
        assert!((exponential - 9.210).abs() < 0.46, "{exponential}");
        let uniform = mean_of(1000, 1e-4, |g| g.random::<f64>());
        assert!((uniform - 0.9999).abs() < 0.01, "{uniform}");
        let log_normal = LogNormal::new(0.0, 0.5).unwrap();
        let log_normal = mean_of(1000, 1e-4, |g| log_normal.sample(g));
        assert!((log_normal - 6.42).abs() < 0.32, "{log_normal}");
    }

    #[test]
    fn quantiles_within_the_sample_are_those_of_the_sample() {
        let tail = Tail::new((0..1000).map(f64::from).collect());
        for probability in [0.02, 0.1, 0.5, 0.9] {
            let value = tail.exceeded_with(probability);
            assert!((value - 1000.0 * (1.0 - probability)).abs() < 1.5, "{probability}: {value}");
        }
    }

    #[test]
    fn small_samples_count_as_normally_distributed() {
        let tail = Tail::new(vec![-1.0, 1.0, -1.0, 1.0, -1.0, 1.0]);
        let expected = (6.0_f64 / 5.0).sqrt() * 2.326;
        assert!((tail.exceeded_with(0.01) - expected).abs() < 0.01);
    }

    #[test]
    fn equal_values_have_a_tail_of_the_same_value() {
        for number in [1, 5, 50, 5000] {
            assert_eq!(Tail::new(vec![3.5; number]).exceeded_with(1e-6), 3.5, "{number}");
        }
    }

    #[test]
    fn rare_large_values_are_exceeded_as_often_as_they_occurred() {
        // System: one value of a hundred is 1, the others are 0. Expectation: 1 is what one of a thousand exceeds or reaches, and 0 what
        // a twentieth does.
        let tail = Tail::new((0..5000).map(|i| f64::from(u8::from(i % 100 == 0))).collect());
        assert!((tail.exceeded_with(1e-3) - 1.0).abs() < 0.2, "{}", tail.exceeded_with(1e-3));
        assert_eq!(tail.exceeded_with(0.05), 0.0);
    }
}
