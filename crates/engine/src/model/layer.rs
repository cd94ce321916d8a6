//! The weights of one layer, and the operations that need no cache.

use pulp::Arch;

use super::{
    config::Config,
    exponential::exp,
    names::{Projection, TensorName},
};
use crate::{
    LoadError,
    cache::Table,
    lora::Adapter,
    weights::{Matrix, RawTensor, Weights},
};

/// A matrix with an optional bias.
struct Linear {
    matrix: Matrix,
    bias: Option<Vec<f32>>,
}

/// The weights of one layer.
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    /// The norms of each head's queries and keys.
    pub(super) head_norms: Option<(Vec<f32>, Vec<f32>)>,
    pub(super) feed_forward_norm: Vec<f32>,
    /// In the order of [`Projection::ALL`].
    projections: Vec<Linear>,
}

/// Tokens of one sequence that are computed in one forward pass.
pub(crate) struct Span<'a> {
    /// Has at least one entry.
    pub(crate) tokens: &'a [u32],
    /// The position of the first token. All tokens before it are in the cache.
    pub(crate) start: usize,
    /// The blocks of the sequence, with space for these tokens.
    pub(crate) table: Table<'a>,
    /// Whether the logits of the next token are needed.
    pub(crate) predicts: bool,
    /// The adapter, if the sequence uses one.
    pub(crate) adapter: Option<&'a Adapter>,
}

/// The spans of a forward pass in one layer, each with its adapter.
pub(super) struct LayerAdapters<'a> {
    pub(super) layer: usize,
    pub(super) spans: &'a [Span<'a>],
}

/// Reads tensors of a model by their role.
pub(super) struct Reader<'a> {
    pub(super) weights: &'a Weights,
    pub(super) as_shipped: bool,
}

// === impl Reader ===

impl Reader<'_> {
    pub(super) fn raw(&self, name: TensorName) -> Result<Option<RawTensor>, LoadError> {
        self.weights.tensor(&format!("{}.weight", name.of(self.weights)))
    }

    pub(super) fn required(&self, name: TensorName) -> Result<RawTensor, LoadError> {
        self.raw(name)?.ok_or_else(|| {
            let reason = format!("the tensor `{}.weight` is missing", name.of(self.weights));
            LoadError::malformed(self.weights.path(), reason)
        })
    }

    pub(super) fn vector(&self, name: TensorName, length: usize) -> Result<Vec<f32>, LoadError> {
        self.required(name)?.numbers(&[length])
    }

    fn linear(&self, layer: usize, projection: Projection, config: &Config) -> Result<Linear, LoadError> {
        let name = TensorName::Projection(layer, projection);
        let (inputs, outputs) = projection.shape(config);
        let matrix = Matrix::new(&self.required(name)?, outputs, inputs, self.as_shipped)?;
        let bias = self.weights.tensor(&format!("{}.bias", name.of(self.weights)))?;
        let bias = bias.map(|raw| raw.numbers(&[outputs])).transpose()?;
        Ok(Linear { matrix, bias })
    }

    pub(super) fn layer(&self, number: usize, config: &Config) -> Result<Layer, LoadError> {
        let Config { width, head_width, .. } = *config;
        let projections =
            Projection::ALL.into_iter().map(|projection| self.linear(number, projection, config));
        let head_norms = if config.normalises_heads {
            Some((
                self.vector(TensorName::QueryNorm(number), head_width)?,
                self.vector(TensorName::KeyNorm(number), head_width)?,
            ))
        } else {
            None
        };
        Ok(Layer {
            attention_norm: self.vector(TensorName::AttentionNorm(number), width)?,
            head_norms,
            feed_forward_norm: self.vector(TensorName::FeedForwardNorm(number), width)?,
            projections: projections.collect::<Result<_, _>>()?,
        })
    }
}

// === impl LayerAdapters ===

impl LayerAdapters<'_> {
    /// Adds the products of each span's adapter to `products`.
    fn add(&self, projection: Projection, rows: &[f32], products: &mut [f32]) {
        let tokens: usize = self.spans.iter().map(|span| span.tokens.len()).sum();
        let (inputs, outputs) = (rows.len() / tokens, products.len() / tokens);
        let mut start = 0;
        for span in self.spans {
            let end = start + span.tokens.len();
            if let Some(low_rank) = span.adapter.and_then(|adapter| adapter.of(self.layer, projection)) {
                low_rank
                    .add(&rows[start * inputs..end * inputs], &mut products[start * outputs..end * outputs]);
            }
            start = end;
        }
    }
}

// === impl Layer ===

impl Layer {
    /// The size of the matrices in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.projections.iter().map(|linear| linear.matrix.bytes()).sum()
    }

    /// Multiplies rows of activations, and adds the bias and the products of adapters.
    pub(super) fn project(
        &self,
        projection: Projection,
        rows: &[f32],
        adapters: &LayerAdapters<'_>,
    ) -> candle_core::Result<Vec<f32>> {
        let Linear { matrix, bias } = &self.projections[projection as usize];
        let mut products = matrix.apply(rows)?;
        adapters.add(projection, rows, &mut products);
        if let Some(bias) = bias {
            for row in products.chunks_exact_mut(bias.len()) {
                add(row, bias);
            }
        }
        Ok(products)
    }

    /// Computes the feed-forward part for normalized rows. The caller adds the result to the residual.
    pub(super) fn feed_forward(
        &self,
        rows: &[f32],
        adapters: &LayerAdapters<'_>,
    ) -> candle_core::Result<Vec<f32>> {
        let mut gate = self.project(Projection::Gate, rows, adapters)?;
        let up = self.project(Projection::Up, rows, adapters)?;
        Arch::new().dispatch(|| {
            for (gate, up) in gate.iter_mut().zip(&up) {
                *gate = *gate / (1.0 + exp(-*gate)) * up;
            }
        });
        self.project(Projection::Down, &gate, adapters)
    }
}

/// Adds numbers element by element.
pub(super) fn add(to: &mut [f32], numbers: &[f32]) {
    for (to, number) in to.iter_mut().zip(numbers) {
        *to += number;
    }
}

/// RMS norm: divides each row by its root mean square and multiplies it by the weights.
pub(super) fn normalised(rows: &[f32], weights: &[f32], epsilon: f32) -> Vec<f32> {
    let mut normalised = rows.to_vec();
    normalise(&mut normalised, weights, epsilon);
    normalised
}

/// Normalizes rows in place.
#[expect(clippy::cast_precision_loss, reason = "rows are short")]
pub(super) fn normalise(rows: &mut [f32], weights: &[f32], epsilon: f32) {
    for row in rows.chunks_exact_mut(weights.len()) {
        let squares = square_sum(row);
        let scale = 1.0 / (squares / weights.len() as f32 + epsilon).sqrt();
        for (number, weight) in row.iter_mut().zip(weights) {
            *number *= scale * weight;
        }
    }
}

/// The sum of all squares, with several partial sums, so that the compiler can use wide registers.
fn square_sum(row: &[f32]) -> f32 {
    let (lanes, rest) = row.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for numbers in lanes {
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum += number * number;
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|number| number * number).sum::<f32>()
}
