//! Means, standard deviations and Student's confidence intervals.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Returns the arithmetic mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the sample standard deviation (divisor `n − 1`), by two passes; `None` for fewer than
/// two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Returns Student's 95 % confidence interval for the mean of independent values; `None` for fewer
/// than two values, or if one of them is not finite.
pub fn t_interval(values: &[f64]) -> Option<[f64; 2]> {
    let (mean, sd) = (mean(values)?, sd(values)?);
    let n = values.len() as f64;
    let half = student_975(n - 1.0)? * sd / n.sqrt();
    half.is_finite().then_some([mean - half, mean + half])
}

/// Returns the 97.5 % quantile of Student's distribution with `degrees` degrees of freedom; `None`
/// if `degrees` is not above 0.
pub fn student_975(degrees: f64) -> Option<f64> {
    student_quantile(0.975, degrees)
}

/// Returns the quantile `share` (0 to 1) of Student's distribution with `degrees` degrees of freedom; `None` if `degrees` is not
/// above 0.
pub fn student_quantile(share: f64, degrees: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, degrees).ok().map(|t| t.inverse_cdf(share))
}

/// Returns the quantile `share` (0 to 1) of the standard normal distribution.
pub fn normal_quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use rand_distr::StandardNormal;

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance
    }

    /// Expectation: the values in the table of Student's distribution in any textbook.
    #[test]
    fn quantiles_of_students_distribution_match_textbook_tables() {
        for (degrees, expected) in
            [(1.0, 12.706), (4.0, 2.776), (9.0, 2.262), (19.0, 2.093), (120.0, 1.980)]
        {
            assert!(close(student_975(degrees).unwrap(), expected, 5e-4), "{degrees}");
        }
    }

    /// Law's example of ten observations (section 4.5): mean 1.34, variance 0.17, and the 90 %
    /// interval 1.34 ± 0.24, so ± 0.24 · 2.262 / 1.833 at 95 %.
    #[test]
    fn t_intervals_match_a_textbook_example() {
        let values = [1.20, 1.50, 1.68, 1.89, 0.95, 1.49, 1.58, 1.55, 0.50, 1.09];
        assert!(close(mean(&values).unwrap(), 1.343, 1e-9));
        assert!(close(sd(&values).unwrap().powi(2), 0.17, 0.005));
        let [low, high] = t_interval(&values).unwrap();
        assert!(close((high - low) / 2.0, 0.24 * 2.262 / 1.833, 0.004), "{low} {high}");
        assert!(close((high + low) / 2.0, 1.343, 1e-9));
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!((mean(&[]), sd(&[1.0]), t_interval(&[1.0])), (None, None, None));
        assert_eq!(t_interval(&[3.0, 3.0]), Some([3.0, 3.0]));
        assert_eq!(t_interval(&[3.0, f64::INFINITY]), None);
    }

    /// Returns the share of 4000 intervals that hold the true mean 0.
    fn coverage(interval: impl Fn(&mut Xoshiro256PlusPlus) -> [f64; 2]) -> f64 {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(1);
        let hits = (0..4000).filter(|_| {
            let [low, high] = interval(&mut generator);
            low <= 0.0 && 0.0 <= high
        });
        hits.count() as f64 / 4000.0
    }

    /// 95 % of intervals over five normal values hold the mean (standard error 0.34 %).
    #[test]
    fn intervals_hold_the_mean_in_95_percent_of_cases() {
        let share = coverage(|generator| {
            let values: [f64; 5] = std::array::from_fn(|_| generator.sample(StandardNormal));
            t_interval(&values).unwrap()
        });
        assert!(close(share, 0.95, 0.0135), "{share}");
    }
}
