//! Choosing the next token.

use std::{collections::HashMap, sync::Arc};

use longboat_serving::Sampling;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::text::Tokenizer;

/// Stands for the logarithm of zero, which JSON lacks, as in vLLM.
const LEAST_LOGPROB: f64 = -9999.0;

/// Chooses tokens for one answer.
pub(crate) struct Sampler {
    random: StdRng,
    /// How often each token occurs in the answer, for penalties.
    counts: HashMap<u32, u32>,
    /// The sorted tokens of the prompt. Only the repetition penalty uses them.
    prompt: Vec<u32>,
}

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SampledToken {
    pub(crate) token: u32,
    /// Its log probability from the model and the form of the answer, before any sampling.
    pub(crate) logprob: f64,
    /// The most likely tokens with their log probabilities, the most likely first. Empty if they were not requested.
    pub(crate) top: Vec<(u32, f64)>,
}

/// Texts that answers do not have, as tokens, which the answers of a request share.
#[derive(Debug, Clone)]
pub(crate) struct BadWords(Arc<[Vec<u32>]>);

// === impl BadWords ===

impl BadWords {
    /// Each text as it is, and after a space, as vLLM takes them.
    pub(crate) fn new(words: &[String], tokenizer: &Tokenizer) -> Self {
        let mut all: Vec<Vec<u32>> = Vec::new();
        for word in words {
            for text in [word.trim_start().to_owned(), format!(" {}", word.trim_start())] {
                let tokens = tokenizer.words_of(&text);
                if !tokens.is_empty() && !all.contains(&tokens) {
                    all.push(tokens);
                }
            }
        }
        Self(all.into())
    }

    /// The tokens that would complete one of the texts after these tokens of an answer.
    pub(crate) fn completed_by(&self, answer: &[u32]) -> impl Iterator<Item = u32> {
        let completes = |word: &Vec<u32>| {
            let (last, before) = word.split_last()?;
            answer.ends_with(before).then_some(*last)
        };
        self.0.iter().filter_map(completes)
    }
}

/// Excludes all other tokens.
pub(crate) fn restrict_to(weights: &mut [f32], tokens: &[u32]) {
    let mut is_kept = vec![false; weights.len()];
    for token in tokens {
        if let Some(is_kept) = is_kept.get_mut(*token as usize) {
            *is_kept = true;
        }
    }
    for (weight, is_kept) in weights.iter_mut().zip(is_kept) {
        if !is_kept {
            *weight = f32::NEG_INFINITY;
        }
    }
}

// === impl Sampler ===

impl Sampler {
    /// Creates the sampler for answer number `copy` to a prompt.
    pub(crate) fn new(sampling: &Sampling, prompt: &[u32], copy: usize) -> Self {
        let random = match sampling.seed {
            // vLLM, too, adds the number of the copy to the seed.
            Some(seed) => StdRng::seed_from_u64(seed.cast_unsigned().wrapping_add(copy as u64)),
            None => StdRng::from_rng(&mut rand::rng()),
        };
        let mut prompt =
            if is_neutral(sampling.repetition_penalty, 1.0) { Vec::new() } else { prompt.to_vec() };
        prompt.sort_unstable();
        prompt.dedup();
        Self { random, counts: HashMap::new(), prompt }
    }

    /// Chooses a token by the logits. `restrict` excludes tokens by setting their logits to negative infinity. The reported
    /// probabilities do not include this.
    pub(crate) fn choose(
        &mut self,
        sampling: &Sampling,
        mut weights: Vec<f32>,
        restrict: impl FnOnce(&mut [f32]),
    ) -> SampledToken {
        // Before penalties and temperature: vLLM's default for `--logprobs-mode` is `raw_logprobs`.
        let (normal, top) = match sampling.logprobs {
            None => (0.0, Vec::new()),
            Some(count) => {
                let normal = normaliser(&weights);
                (
                    normal,
                    top_tokens(&weights, count)
                        .into_iter()
                        .map(|(token, weight)| (token, (weight - normal).max(LEAST_LOGPROB)))
                        .collect(),
                )
            }
        };
        let raw = sampling.logprobs.map(|_| weights.clone());
        for (token, bias) in &sampling.biases {
            if let Some(weight) = weights.get_mut(*token as usize) {
                *weight += bias;
            }
        }
        self.penalise(sampling, &mut weights);
        restrict(&mut weights);
        let token = if is_neutral(sampling.temperature, 0.0) {
            first(&weights)
        } else {
            self.draw(sampling, &weights)
        };
        *self.counts.entry(token).or_default() += 1;
        let logprob = raw.map_or(0.0, |raw| (f64::from(raw[token as usize]) - normal).max(LEAST_LOGPROB));
        SampledToken { token, logprob, top }
    }

    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    fn penalise(&self, sampling: &Sampling, weights: &mut [f32]) {
        let repetition = sampling.repetition_penalty as f32;
        if !is_neutral(sampling.repetition_penalty, 1.0) {
            // A token that is in the prompt and in the answer counts once.
            let seen = self
                .prompt
                .iter()
                .chain(self.counts.keys().filter(|token| self.prompt.binary_search(token).is_err()));
            for token in seen {
                if let Some(weight) = weights.get_mut(*token as usize) {
                    *weight = if *weight > 0.0 { *weight / repetition } else { *weight * repetition };
                }
            }
        }
        for (token, count) in &self.counts {
            if let Some(weight) = weights.get_mut(*token as usize) {
                *weight -=
                    (sampling.frequency_penalty * f64::from(*count) + sampling.presence_penalty) as f32;
            }
        }
    }

    /// Draws a token. The filters are applied in vLLM's order: min-p, top-k, top-p.
    fn draw(&mut self, sampling: &Sampling, weights: &[f32]) -> u32 {
        let mut candidates: Vec<(u32, f64)> = (0_u32..)
            .zip(weights)
            .filter(|(_, weight)| weight.is_finite())
            .map(|(token, weight)| (token, f64::from(*weight) / sampling.temperature))
            .collect();
        // Equal weights are ordered by token, so that a seed always gives the same answer.
        candidates.sort_unstable_by(|(a_token, a), (b_token, b)| b.total_cmp(a).then(a_token.cmp(b_token)));
        let Some((_, most)) = candidates.first().copied() else { return 0 };
        for (_, weight) in &mut candidates {
            *weight = (*weight - most).exp();
        }
        if sampling.min_p > 0.0 {
            candidates.retain(|(_, weight)| *weight >= sampling.min_p);
        }
        if sampling.top_k > 0 {
            candidates.truncate(sampling.top_k);
        }
        if sampling.top_p < 1.0 {
            let all: f64 = candidates.iter().map(|(_, weight)| weight).sum();
            let mut sum = 0.0;
            let enough = candidates.iter().position(|(_, weight)| {
                sum += weight / all;
                sum >= sampling.top_p
            });
            candidates.truncate(enough.map_or(candidates.len(), |last| last + 1));
        }
        let all: f64 = candidates.iter().map(|(_, weight)| weight).sum();
        let mut point = self.random.random::<f64>() * all;
        for (token, weight) in &candidates {
            point -= weight;
            if point <= 0.0 {
                return *token;
            }
        }
        // The rounding of the sums may leave a little of `point`.
        candidates.last().map_or(0, |(token, _)| *token)
    }
}

/// Whether a parameter has the value that disables it.
fn is_neutral(value: f64, neutral: f64) -> bool {
    (value - neutral).abs() < 1e-6
}

/// Log-sum-exp of all logits.
fn normaliser(weights: &[f32]) -> f64 {
    let most = f64::from(weights.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + weights.iter().map(|weight| (f64::from(*weight) - most).exp()).sum::<f64>().ln()
}

/// Returns the token with the greatest logit. Of equal ones, returns the first.
fn first(weights: &[f32]) -> u32 {
    let best = (0_u32..).zip(weights).reduce(|best, next| if *next.1 > *best.1 { next } else { best });
    best.map_or(0, |(token, _)| token)
}

fn top_tokens(weights: &[f32], count: usize) -> Vec<(u32, f64)> {
    if count == 0 {
        return Vec::new();
    }
    let mut all: Vec<(u32, f64)> = (0_u32..).zip(weights.iter().map(|weight| f64::from(*weight))).collect();
    let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let count = count.min(all.len());
    all.select_nth_unstable_by(count - 1, order);
    all.truncate(count);
    all.sort_unstable_by(order);
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sampling() -> Sampling {
        Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            seed: Some(7),
            stops: Vec::new(),
            stop_tokens: Vec::new(),
            include_stop: false,
            min_tokens: 0,
            ignore_eos: false,
            biases: Vec::new(),
            allowed: None,
            bad_words: Vec::new(),
            show_special_tokens: false,
            logprobs: None,
        }
    }

    /// Counts how often each of three tokens is drawn.
    fn drawn(sampling: &Sampling, weights: [f32; 3]) -> [usize; 3] {
        let mut sampler = Sampler::new(sampling, &[], 0);
        let mut counts = [0; 3];
        for _ in 0..2000 {
            sampler.counts.clear();
            counts[sampler.choose(sampling, weights.to_vec(), |_| ()).token as usize] += 1;
        }
        counts
    }

    #[test]
    fn tokens_are_drawn_by_their_probability_and_filters_take_the_unlikely_away() {
        let weights = [0.6_f32.ln(), 0.3_f32.ln(), 0.1_f32.ln()];
        let all = drawn(&sampling(), weights);
        assert!((1100..1300).contains(&all[0]) && (520..680).contains(&all[1]), "{all:?}");
        assert_eq!(drawn(&Sampling { top_k: 1, ..sampling() }, weights)[1..], [0, 0]);
        assert_eq!(drawn(&Sampling { top_p: 0.7, ..sampling() }, weights)[2], 0);
        assert_eq!(drawn(&Sampling { min_p: 0.4, ..sampling() }, weights)[2], 0);
        assert_eq!(drawn(&Sampling { temperature: 0.0, ..sampling() }, weights), [2000, 0, 0]);
    }

    #[test]
    fn a_seed_repeats_an_answer_and_copies_differ() {
        let answer = |copy| {
            let mut sampler = Sampler::new(&sampling(), &[], copy);
            (0..32).map(|_| sampler.choose(&sampling(), vec![0.0; 50], |_| ()).token).collect::<Vec<_>>()
        };
        assert_eq!(answer(0), answer(0));
        assert_ne!(answer(0), answer(1));
    }

    #[test]
    fn penalties_lower_the_weights_of_earlier_tokens() {
        let greedy = Sampling { temperature: 0.0, ..sampling() };
        for sampling in [
            Sampling { presence_penalty: 1.0, ..greedy.clone() },
            Sampling { frequency_penalty: 1.0, ..greedy.clone() },
            Sampling { repetition_penalty: 2.0, ..greedy.clone() },
        ] {
            let mut sampler = Sampler::new(&sampling, &[], 0);
            let tokens: Vec<u32> =
                (0..2).map(|_| sampler.choose(&sampling, vec![1.0, 0.8], |_| ()).token).collect();
            assert_eq!(tokens, [0, 1]);
        }
        let repetition = Sampling { repetition_penalty: 2.0, ..greedy };
        let mut sampler = Sampler::new(&repetition, &[0], 0);
        assert_eq!(sampler.choose(&repetition, vec![1.0, 0.8], |_| ()).token, 1, "the prompt counts");
    }

    #[test]
    fn a_bias_makes_a_token_likelier_and_is_no_part_of_its_probability() {
        let sampling = Sampling { biases: vec![(1, 5.0)], logprobs: Some(0), temperature: 0.0, ..sampling() };
        let mut sampler = Sampler::new(&sampling, &[], 0);
        let chosen = sampler.choose(&sampling, vec![0.75_f32.ln(), 0.25_f32.ln()], |_| ());
        assert_eq!(chosen.token, 1);
        assert!((chosen.logprob - 0.25_f64.ln()).abs() < 1e-6);
    }

    #[test]
    fn the_last_token_of_a_bad_word_is_not_chosen_and_only_allowed_ones_are() {
        let tokenizer = Tokenizer::of_bytes();
        let words = BadWords::new(&["ab".to_owned(), "c".to_owned()], &tokenizer);
        let tokens = |text: &str| tokenizer.tokens(text);
        assert_eq!(words.completed_by(&tokens("xa")).collect::<Vec<_>>(), tokens("bc"));
        assert_eq!(words.completed_by(&tokens("xb")).collect::<Vec<_>>(), tokens("c"));
        let mut weights = vec![1.0; 4];
        restrict_to(&mut weights, &[1, 3, 99]);
        assert_eq!(
            weights.iter().map(|weight| weight.is_finite()).collect::<Vec<_>>(),
            [false, true, false, true]
        );
    }

    #[test]
    fn probabilities_are_the_models_own() {
        let sampling = Sampling { logprobs: Some(2), temperature: 0.0, ..sampling() };
        let mut sampler = Sampler::new(&sampling, &[], 0);
        let chosen = sampler.choose(&sampling, vec![0.25_f32.ln(), 0.75_f32.ln()], |weights| {
            weights[1] = f32::NEG_INFINITY;
        });
        assert_eq!(chosen.token, 0);
        assert!((chosen.logprob - 0.25_f64.ln()).abs() < 1e-6);
        assert_eq!(chosen.top.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 0]);
    }
}
