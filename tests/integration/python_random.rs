//! Python's `random.Random`, to reproduce the random numbers of a Python program.

/// The Mersenne Twister MT19937, with the seeding of `random.Random(seed)`.
pub(crate) struct PythonRandom {
    state: [u32; LENGTH],
    next: usize,
    /// The unused second of a pair of normal numbers.
    spare: Option<f64>,
}

const LENGTH: usize = 624;
const SHIFT: usize = 397;

impl PythonRandom {
    pub(crate) fn new(seed: u32) -> PythonRandom {
        let mut state = [0; LENGTH];
        let mut before = 19_650_218_u32;
        for (i, word) in (0..).zip(&mut state) {
            *word = if i == 0 { before } else { mixed(before, 1_812_433_253).wrapping_add(i) };
            before = *word;
        }
        // Python seeds with an array of words; here the array has one word.
        let mut at = 0;
        let mut step = |factor: u32, add: &dyn Fn(u32) -> u32| {
            let before = state[at];
            at += 1;
            if at == LENGTH {
                state[0] = before;
                at = 1;
            }
            state[at] = add(state[at] ^ mixed(state[at - 1], factor));
            at as u32
        };
        let mut last = 0;
        for _ in 0..LENGTH {
            last = step(1_664_525, &|word| word.wrapping_add(seed));
        }
        for _ in 1..LENGTH {
            let index = if last as usize == LENGTH - 1 { 1 } else { last + 1 };
            last = step(1_566_083_941, &|word| word.wrapping_sub(index));
        }
        state[0] = 0x8000_0000;
        PythonRandom { state, next: LENGTH, spare: None }
    }

    fn word(&mut self) -> u32 {
        if self.next == LENGTH {
            self.next = 0;
            for i in 0..LENGTH {
                let joined =
                    self.state[i] & 0x8000_0000 | self.state[(i + 1) % LENGTH] & 0x7fff_ffff;
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + SHIFT) % LENGTH] ^ joined >> 1 ^ twist;
            }
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// Returns a uniform random number in [0, 1).
    pub(crate) fn random(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// Returns a normal random number, by Box and Muller in pairs.
    pub(crate) fn gauss(&mut self, mean: f64, deviation: f64) -> f64 {
        let standard = self.spare.take().unwrap_or_else(|| {
            let angle = self.random() * std::f64::consts::TAU;
            let radius = (-2.0 * (1.0 - self.random()).ln()).sqrt();
            self.spare = Some(angle.sin() * radius);
            angle.cos() * radius
        });
        mean + standard * deviation
    }
}

fn mixed(word: u32, factor: u32) -> u32 {
    (word ^ word >> 30).wrapping_mul(factor)
}

#[test]
fn the_random_number_generator_reproduces_the_numbers_of_python() {
    // python3 -c 'import random; r = random.Random(42); print(r.random(), r.random())'
    let mut draw = PythonRandom::new(42);
    assert_eq!(draw.random(), 0.639_426_798_457_883_8);
    assert_eq!(draw.random(), 0.025_010_755_222_666_936);
}
