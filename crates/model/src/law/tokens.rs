//! Token buckets for requests: each request takes one token, as each operation does at a throttle or a cloud volume with I/O credits.

/// Part of a token whose lack counts as a rounding error.
const ROUNDING: f64 = 1e-6;

/// A token bucket: requests take a token each, and pass in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLaw {
    /// Tokens that enter per second [1/s].
    pub sustained: f64,
    /// Tokens that are taken per second while the bucket holds some [1/s]; may be infinite.
    pub fast: f64,
    /// Largest content.
    pub bucket: f64,
    /// Content at time 0.
    pub content: f64,
    /// Period [s]: the tokens of a period enter at once when it begins. `None`: tokens enter continuously.
    pub period: Option<f64>,
}

/// What has been taken from a bucket. The default is the state at time 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TokensTaken {
    /// Tokens taken beyond those that have entered.
    pub beyond: f64,
    /// Time at which the last token was taken [s].
    pub until: f64,
}

impl TokenLaw {
    /// Returns the highest mean rate over the first `seconds` [1/s].
    #[must_use]
    pub fn most_over(&self, seconds: f64) -> f64 {
        self.fast.min(self.sustained + self.content / seconds)
    }

    /// Takes a token for a request that arrives at `now`. Returns the time at which it passes [s], which is not before those of earlier
    /// requests. Tokens enter `pace` times as fast as usual.
    pub fn take(&self, taken: &mut TokensTaken, now: f64, pace: f64) -> f64 {
        let now = now.max(taken.until);
        let gained = self.gained(taken.until, now) * pace;
        let content = (self.content - taken.beyond + gained).min(self.bucket);
        let rate = self.sustained * pace;
        let missing = (1.0 - ROUNDING - content).max(0.0);
        let pass = match self.period {
            _ if missing == 0.0 => now,
            None => now + (1.0 - content) / rate,
            Some(period) => {
                let periods = (missing / (rate * period)).ceil();
                (self.period_of(now) + periods) * period
            }
        };
        let pass = pass.max(now + 1.0 / self.fast);
        let left = (content + self.gained(now, pass) * pace).min(self.bucket + 1.0) - 1.0;
        *taken = TokensTaken { beyond: self.content - left, until: pass };
        pass
    }

    /// Returns the tokens that the bucket gains between two times [s], spilt ones included.
    fn gained(&self, from: f64, to: f64) -> f64 {
        let seconds = match self.period {
            None => to - from,
            Some(period) => (self.period_of(to) - self.period_of(from)) * period,
        };
        self.sustained * seconds
    }

    /// Returns the number of the period at time `at` [s].
    fn period_of(&self, at: f64) -> f64 {
        self.period.map_or(0.0, |period| (at / period + 1e-9).floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(law: TokenLaw, arrivals: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let mut taken = TokensTaken::default();
        arrivals.into_iter().map(|at| law.take(&mut taken, at, 1.0)).collect()
    }

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-5, "{found:?} for {expected:?}");
    }

    const GATE: TokenLaw = TokenLaw {
        sustained: 30.0,
        fast: f64::INFINITY,
        bucket: 3.0,
        content: 3.0,
        period: Some(0.1),
    };

    #[test]
    fn a_gate_lets_the_tokens_of_a_period_pass_at_once_and_the_others_when_the_next_begins() {
        // System: three tokens every 100 ms. Expectation: three of eight requests pass at once, three at 0.1 s and two at 0.2 s. Requests
        // that come more seldom never wait.
        near(&passes(GATE, [0.0; 8]), &[0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.2, 0.2]);
        let seldom: Vec<f64> = (0..50).map(|n| 0.05 * f64::from(n)).collect();
        near(&passes(GATE, seldom.clone()), &seldom);
    }

    #[test]
    fn a_period_with_less_than_a_token_is_added_to_the_next() {
        let slow = TokenLaw { sustained: 4.0, bucket: 0.4, content: 0.4, ..GATE };
        near(&passes(slow, [0.0; 3]), &[0.2, 0.4, 0.7]);
    }

    #[test]
    fn a_bucket_gives_its_tokens_at_the_fast_rate_and_then_the_sustained_rate() {
        // System: 10 tokens, 100 per second while there are some, 2 per second in the long run. Expectation: ten in 0.1 s, and 0.2 more by
        // then; then one each half second. After a pause of 2 s, four more.
        let law =
            TokenLaw { sustained: 2.0, fast: 100.0, bucket: 10.0, content: 10.0, period: None };
        let found = passes(law, [0.0; 12]);
        near(&found[..10], &(1..=10).map(|n| f64::from(n) / 100.0).collect::<Vec<_>>());
        near(&found[10..], &[0.5, 1.0]);
        let mut taken = TokensTaken { beyond: 10.0, until: 1.0 };
        let later: Vec<f64> = (0..5).map(|_| law.take(&mut taken, 3.0, 1.0)).collect();
        near(&later, &[3.01, 3.02, 3.03, 3.04, 3.5]);
    }

    #[test]
    fn a_slowed_bucket_gains_less() {
        let law = TokenLaw {
            sustained: 2.0,
            fast: f64::INFINITY,
            bucket: 1.0,
            content: 0.0,
            period: None,
        };
        let mut taken = TokensTaken::default();
        assert!((law.take(&mut taken, 0.0, 0.5) - 1.0).abs() < 1e-9);
    }
}
