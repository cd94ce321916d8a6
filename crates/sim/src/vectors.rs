//! Vectors of texts, for a simulator that is told that its model makes them.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use longboat_engine_model::split_mix::sequence;
use longboat_serving::{Refusal, normalise};

use crate::{caches::Caches, engine::Engine};

/// A vector for each prompt, when its time has come. As many prompts as the batch holds take their times together.
pub(crate) async fn embed(
    engine: &Arc<Engine>,
    width: usize,
    prompts: Vec<Vec<u32>>,
) -> Result<Vec<Vec<f32>>, Refusal> {
    let args = &engine.args;
    if let Some(refusal) = args.faults.refusal() {
        return Err(refusal);
    }
    prompts.iter().try_for_each(|prompt| engine.fits(prompt.len()))?;
    let vectors = stream::iter(prompts).map(|prompt| async move {
        let running = engine.admit(&prompt, 0, Caches::default()).await?;
        running.prefill().await;
        running.processed();
        running.finished("stop");
        Ok(vector(&prompt, width))
    });
    vectors.buffered(args.parameters.max_num_seqs).try_collect().await
}

/// The vector of a text: always the same, of the length 1, and near those of texts with the same tokens.
fn vector(tokens: &[u32], width: usize) -> Vec<f32> {
    let mut vector = vec![0.0; width];
    for token in tokens {
        for (number, bits) in vector.iter_mut().zip(sequence(u64::from(*token))) {
            *number += direction(bits);
        }
    }
    normalise(&mut vector);
    vector
}

/// A number from -1 to 1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
fn direction(bits: u64) -> f32 {
    (bits >> 40) as u32 as f32 / (1 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn the_same_text_has_the_same_vector_and_similar_ones_are_near() {
        let of = |text: &str| vector(&text::tokens(text), 64);
        let near = |a: &str, b: &str| of(a).iter().zip(of(b)).map(|(a, b)| a * b).sum::<f32>();
        assert_eq!(of("The sea is salty."), of("The sea is salty."));
        assert!((near("The sea is salty.", "The sea is salty.") - 1.0).abs() < 1e-4);
        assert!(near("The sea is salty.", "The sea is deep.") > 0.3);
        assert!(near("The sea is salty.", "fn add(a: u8)").abs() < 0.5);
    }
}
