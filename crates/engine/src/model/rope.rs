//! Rotary position embeddings.

use std::f64::consts::TAU;

/// The pairs of numbers that a rotary embedding rotates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// Neighbouring numbers, as in Llama's GGUF files.
    Neighbours,
    /// A number of the first half with its partner in the second half.
    Halves,
}

/// The change of frequencies for contexts that are longer than in training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scaling {
    /// No change.
    None,
    /// Low frequencies are divided, with a smooth transition between low and high ones.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        /// The context length of training, in tokens.
        context: f64,
    },
}

/// The rotation angles of all positions.
pub(crate) struct Rope {
    pairs: Pairs,
    /// The cosine and the sine of each pair, for each position.
    angles: Vec<(f32, f32)>,
    half: usize,
}

// === impl Rope ===

impl Rope {
    /// Computes the angles for positions up to `context`. `factors` are divisors, one for each frequency.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the model computes in f32"
    )]
    pub(crate) fn new(
        pairs: Pairs,
        head_width: usize,
        base: f64,
        scaling: Scaling,
        factors: Option<&[f32]>,
        context: usize,
    ) -> Self {
        let half = head_width / 2;
        let frequencies: Vec<f64> = (0..half)
            .map(|pair| {
                let frequency = base.powf(-2.0 * pair as f64 / head_width as f64);
                let factor =
                    factors.and_then(|factors| factors.get(pair)).map_or(1.0, |factor| f64::from(*factor));
                scaling.apply(frequency) / factor
            })
            .collect();
        let angles = (0..context).flat_map(|position| {
            frequencies.iter().map(move |frequency| {
                let (sine, cosine) = (position as f64 * frequency).sin_cos();
                (cosine as f32, sine as f32)
            })
        });
        Self { pairs, angles: angles.collect(), half }
    }

    /// Rotates the numbers of one head by its position's angles.
    pub(crate) fn turn(&self, head: &mut [f32], position: usize) {
        let angles = &self.angles[position * self.half..(position + 1) * self.half];
        for (pair, (cosine, sine)) in angles.iter().enumerate() {
            let (first, second) = match self.pairs {
                Pairs::Neighbours => (2 * pair, 2 * pair + 1),
                Pairs::Halves => (pair, pair + self.half),
            };
            let (x, y) = (head[first], head[second]);
            head[first] = x * cosine - y * sine;
            head[second] = x * sine + y * cosine;
        }
    }
}

// === impl Scaling ===

impl Scaling {
    fn apply(self, frequency: f64) -> f64 {
        let Self::Llama3 { factor, low, high, context } = self else { return frequency };
        let wavelength = TAU / frequency;
        if wavelength < context / high {
            frequency
        } else if wavelength > context / low {
            frequency / factor
        } else {
            let smooth = (context / wavelength - low) / (high - low);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_position_stays_and_pairs_keep_their_length() {
        for pairs in [Pairs::Neighbours, Pairs::Halves] {
            let rope = Rope::new(pairs, 4, 10_000.0, Scaling::None, None, 8);
            let mut head = [1.0, 2.0, 3.0, 4.0];
            rope.turn(&mut head, 0);
            assert_eq!(head.map(f32::to_bits), [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_bits));
            rope.turn(&mut head, 7);
            let length: f32 = head.iter().map(|number| number * number).sum();
            assert!((length - 30.0).abs() < 1e-4, "{pairs:?}");
        }
    }

    #[test]
    fn llama3_leaves_high_frequencies_and_divides_low_ones() {
        let scaling = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, context: 8192.0 };
        assert!((scaling.apply(1.0) - 1.0).abs() < 1e-12);
        assert!((scaling.apply(1e-6) - 1.25e-7).abs() < 1e-12);
        let between = scaling.apply(TAU / 4096.0);
        assert!(between > TAU / 4096.0 / 8.0 && between < TAU / 4096.0);
    }
}
