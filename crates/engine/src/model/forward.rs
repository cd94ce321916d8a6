//! The forward pass of several sequences through the model.

use rayon::prelude::*;

use super::{
    attention::compute_attention,
    config::Config,
    layer::{Layer, LayerAdapters, Reader, Span, add, normalise, normalised},
    names::{Projection, TensorName},
    rope::Rope,
};
use crate::{
    LoadError,
    cache::Kv,
    weights::{Embedding, Matrix, Weights},
};

/// A model with its weights.
pub(crate) struct Transformer {
    config: Config,
    embedding: Embedding,
    layers: Vec<Layer>,
    output_norm: Vec<f32>,
    output: Matrix,
    rope: Rope,
}

// === impl Transformer ===

impl Transformer {
    /// Reads the weights, for contexts of up to `context` tokens.
    pub(crate) fn load(
        weights: &Weights,
        config: Config,
        context: usize,
        as_shipped: bool,
    ) -> Result<Self, LoadError> {
        let reader = Reader { weights, as_shipped };
        let Config { width, vocabulary, head_width, .. } = config;
        let embedding =
            Embedding::new(&reader.required(TensorName::Embedding)?, vocabulary, width, as_shipped)?;
        let output = match reader.raw(TensorName::Output)? {
            Some(raw) => Matrix::new(&raw, vocabulary, width, as_shipped)?,
            // The output matrix is the embedding table.
            None => embedding
                .as_matrix()
                .map_err(|error| LoadError::malformed(weights.path(), error.to_string()))?,
        };
        let factors =
            reader.raw(TensorName::RopeFactors)?.map(|raw| raw.numbers(&[head_width / 2])).transpose()?;
        let rope = Rope::new(
            config.rope_pairs,
            head_width,
            config.rope_base,
            config.rope_scaling,
            factors.as_deref(),
            context,
        );
        let layers = (0..config.layers).map(|number| reader.layer(number, &config));
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
            output_norm: reader.vector(TensorName::OutputNorm, width)?,
            embedding,
            output,
            rope,
            config,
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The size of the weights in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        layers + self.embedding.bytes() + self.output.bytes()
    }

    /// Computes the spans and stores their keys and values. Returns the logits for each span that predicts.
    pub(crate) fn compute(&self, spans: &[Span<'_>], kv: &mut Kv) -> candle_core::Result<Vec<Vec<f32>>> {
        let rows = self.rows(spans, kv)?;
        let width = self.config.width;
        let mut last = Vec::new();
        let mut end = 0;
        for span in spans {
            end += span.tokens.len();
            if span.predicts {
                last.extend_from_slice(&rows[(end - 1) * width..end * width]);
            }
        }
        if last.is_empty() {
            return Ok(Vec::new());
        }
        normalise(&mut last, &self.output_norm, self.config.epsilon);
        let weights = self.output.apply(&last)?;
        Ok(weights.chunks_exact(self.config.vocabulary).map(<[f32]>::to_vec).collect())
    }

    /// Computes a span and stores its keys and values. Returns the final hidden state of each of its tokens.
    pub(crate) fn states(&self, span: Span<'_>, kv: &mut Kv) -> candle_core::Result<Vec<f32>> {
        let mut rows = self.rows(&[span], kv)?;
        normalise(&mut rows, &self.output_norm, self.config.epsilon);
        Ok(rows)
    }

    fn rows(&self, spans: &[Span<'_>], kv: &mut Kv) -> candle_core::Result<Vec<f32>> {
        let tokens: Vec<u32> = spans.iter().flat_map(|span| span.tokens.iter().copied()).collect();
        let mut rows = self.embedding.rows(&tokens)?;
        for number in 0..self.layers.len() {
            self.layer(number, spans, kv, &mut rows)?;
        }
        Ok(rows)
    }

    fn layer(
        &self,
        number: usize,
        spans: &[Span<'_>],
        kv: &mut Kv,
        rows: &mut [f32],
    ) -> candle_core::Result<()> {
        let Config { heads, kv_heads, head_width, epsilon, .. } = self.config;
        let layer = &self.layers[number];
        let input = normalised(rows, &layer.attention_norm, epsilon);
        let adapters = LayerAdapters { layer: number, spans };
        let mut queries = layer.project(Projection::Query, &input, &adapters)?;
        let mut keys = layer.project(Projection::Key, &input, &adapters)?;
        let values = layer.project(Projection::Value, &input, &adapters)?;
        if let Some((query_norm, key_norm)) = &layer.head_norms {
            normalise(&mut queries, query_norm, epsilon);
            normalise(&mut keys, key_norm, epsilon);
        }
        let (query_width, key_width) = (heads * head_width, kv_heads * head_width);
        let mut attention = vec![0.0; queries.len()];
        let mut row = 0;
        for span in spans {
            // The keys of the whole span are stored first, because its tokens attend to each other.
            for offset in 0..span.tokens.len() {
                let position = span.start + offset;
                let keys = &mut keys[(row + offset) * key_width..][..key_width];
                for head in keys.chunks_exact_mut(head_width) {
                    self.rope.turn(head, position);
                }
                kv.store(
                    number,
                    &span.table,
                    position,
                    keys,
                    &values[(row + offset) * key_width..][..key_width],
                );
                let queries = &mut queries[(row + offset) * query_width..][..query_width];
                for head in queries.chunks_exact_mut(head_width) {
                    self.rope.turn(head, position);
                }
            }
            let rows = row * query_width..(row + span.tokens.len()) * query_width;
            let attend = |(offset, (queries, attention)): (usize, (&[f32], &mut [f32]))| {
                compute_attention(
                    queries,
                    kv,
                    number,
                    &span.table,
                    span.start + offset + 1,
                    kv_heads,
                    attention,
                );
            };
            queries[rows.clone()]
                .par_chunks_exact(query_width)
                .zip(attention[rows].par_chunks_exact_mut(query_width))
                .enumerate()
                .for_each(attend);
            row += span.tokens.len();
        }
        add(rows, &layer.project(Projection::Output, &attention, &adapters)?);
        let input = normalised(rows, &layer.feed_forward_norm, epsilon);
        add(rows, &layer.feed_forward(&input, &adapters)?);
        Ok(())
    }
}
