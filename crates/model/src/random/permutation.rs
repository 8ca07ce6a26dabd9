//! A random permutation that needs no table.

use super::Generator;
use rand::Rng;

/// Rounds of the Feistel network.
const ROUNDS: usize = 6;

/// A random bijection of `0..n` in constant memory: a Feistel network over the digits of an index in mixed radix. If a result is
/// outside `0..n`, the network is applied again until it is inside (cycle walking; Black and Rogaway, *Ciphers with arbitrary
/// finite domains*, 2002, methods 2 and 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    /// Size of the set: `n`.
    n: u64,
    /// Radix of the high digit.
    high: u64,
    /// Radix of the low digit.
    low: u64,
    /// Keys of the rounds.
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Samples a permutation of `0..n` with `generator`.
    pub fn new(mut generator: Generator, n: u64) -> Permutation {
        let low = (n.isqrt() + u64::from(n.isqrt().pow(2) < n)).max(1);
        let keys = std::array::from_fn(|_| generator.next_u64());
        Permutation { n, high: n.div_ceil(low).max(1), low, keys }
    }

    /// Returns the size of the set.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the image of `i`. If `i` is `n` or more, it is taken modulo `n`; an empty set gives 0.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        let i = if i < self.n { i } else { i.checked_rem(self.n).unwrap_or(0) };
        let outside = self.high.wrapping_mul(self.low).wrapping_sub(self.n);
        let mut x = i;
        // A cycle contains each index outside `0..n` at most once, so this many steps suffice.
        for _ in 0..=outside {
            [x] = self.encipher([x]);
            if x < self.n {
                return x;
            }
        }
        i
    }

    /// Returns the images of several indices. This takes less time than one after the other, because the processor works on all of
    /// them at the same time.
    pub fn at_each<const N: usize>(&self, indices: [u64; N]) -> [u64; N] {
        let inside = indices.iter().all(|&i| i < self.n);
        let images = if inside { self.encipher(indices) } else { indices };
        std::array::from_fn(|k| match inside && images[k] < self.n {
            true => images[k],
            false => self.at(indices[k]),
        })
    }

    /// Applies the network once to each of `x`: a bijection of `0..high·low`.
    #[inline]
    fn encipher<const N: usize>(&self, x: [u64; N]) -> [u64; N] {
        let (mut high, mut low) = (x.map(|x| x / self.low), x.map(|x| x % self.low));
        for pair in self.keys.chunks_exact(2) {
            for (high, low) in high.iter_mut().zip(&low) {
                *high = add_modulo(*high, scaled_hash(*low, pair[0], self.high), self.high);
            }
            for (low, high) in low.iter_mut().zip(&high) {
                *low = add_modulo(*low, scaled_hash(*high, pair[1], self.low), self.low);
            }
        }
        std::array::from_fn(|k| high[k] * self.low + low[k])
    }
}

/// Returns a hash of `x` in `0..m`, for `m ≤ 2^32`.
#[inline]
fn scaled_hash(x: u64, key: u64, m: u64) -> u64 {
    let mut z = (x ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z >> 32) * m) >> 32
}

/// Returns `(a + b) mod m` for `a` and `b` below `m`.
#[inline]
fn add_modulo(a: u64, b: u64, m: u64) -> u64 {
    let sum = a + b;
    if sum < m { sum } else { sum - m }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Streams};
    use proptest::prelude::*;

    fn permutation(epoch: u64, n: u64) -> Permutation {
        Permutation::new(Streams::new(7, 0).at(Purpose::Order, 0, epoch, 0), n)
    }

    proptest! {
        #[test]
        fn every_index_is_the_image_of_exactly_one_index(epoch: u64, n in 1u64..3000) {
            let order = permutation(epoch, n);
            let mut images: Vec<u64> = (0..n).map(|i| order.at(i)).collect();
            images.sort_unstable();
            prop_assert!(images.into_iter().eq(0..n));
        }

        #[test]
        fn images_of_neighbours_in_large_permutations_are_in_range_and_differ(epoch: u64, n in 1u64 << 40..1 << 48, i: u64) {
            let order = permutation(epoch, n);
            let (i, j) = (i % n, (i % n + 1) % n);
            prop_assert!(order.at(i) < n);
            prop_assert_ne!(order.at(i), order.at(j));
        }
    }

    proptest! {
        #[test]
        fn images_of_several_indices_equal_those_of_each_alone(epoch: u64, n in 1u64..3000, indices: [u64; 4]) {
            let order = permutation(epoch, n);
            for indices in [indices, indices.map(|i| i % n)] {
                prop_assert_eq!(order.at_each(indices), indices.map(|i| order.at(i)));
            }
        }
    }

    #[test]
    fn an_empty_permutation_gives_0_and_indices_out_of_range_wrap_around() {
        assert_eq!(permutation(0, 0).at(5), 0);
        assert_eq!(permutation(0, 1).at(u64::MAX), 0);
        assert_eq!(permutation(0, 10).at(13), permutation(0, 10).at(3));
        assert!(permutation(0, u64::MAX).at(u64::MAX - 1) < u64::MAX);
    }

    #[test]
    fn images_of_a_permutation_equal_recorded_values() {
        let order = permutation(3, 60_000);
        let first: Vec<u64> = (0..6).map(|i| order.at(i)).collect();
        assert_eq!(first, [6462, 40390, 37958, 44338, 36873, 8223]);
    }

    /// Returns the chi-square statistic of counts in equally likely cells.
    fn chi_square(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum()
    }

    /// Checks that all 24 orders of a set of four occur, each within 15 % of the mean frequency. (Six rounds on one-bit digits
    /// are not exactly uniform; the next test finds no deviation for larger sets.)
    #[test]
    fn all_orders_of_a_small_set_are_about_equally_likely() {
        let mut counts = [0u64; 256];
        for epoch in 0..48_000 {
            let order = permutation(epoch, 4);
            counts[(0..4).fold(0, |code, i| code * 4 + order.at(i) as usize)] += 1;
        }
        let met: Vec<u64> = counts.into_iter().filter(|&count| count > 0).collect();
        assert_eq!(met.len(), 24);
        assert!(met.iter().all(|count| count.abs_diff(2000) < 300), "{met:?}");
    }

    /// Checks that the pairs (image of i, image of i + 1) are uniform on a 10 × 10 grid within one epoch: 99 degrees of freedom,
    /// 99.9 % quantile 148.2.
    #[test]
    fn images_of_neighbouring_indices_are_statistically_independent() {
        for n in [60_000, 1 << 20, (1 << 45) + 12_345] {
            for epoch in 0..5 {
                let order = permutation(epoch, n);
                let cell = |i| (u128::from(order.at(i)) * 10 / u128::from(n)) as usize;
                let mut counts = [0; 100];
                (0..50_000).for_each(|i| counts[10 * cell(i) + cell(i + 1)] += 1);
                assert!(chi_square(&counts) < 148.2, "{n} {epoch}: {}", chi_square(&counts));
            }
        }
    }

    /// Checks that permutations of neighbouring epochs agree at as many indices as unrelated permutations do: 1 on average
    /// (Poisson).
    #[test]
    fn permutations_of_neighbouring_epochs_are_unrelated() {
        let n = 1000;
        let same: u64 = (0..500)
            .map(|e| {
                let (a, b) = (permutation(e, n), permutation(e + 1, n));
                (0..n).filter(|&i| a.at(i) == b.at(i)).count() as u64
            })
            .sum();
        assert!(same.abs_diff(500) < 4 * 23, "{same}");
    }
}
