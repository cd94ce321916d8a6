//! Matrices of weights: multiplied as quantized blocks, read as numbers row by row.

use std::sync::Arc;

use super::Raw;
use crate::LoadError;
use candle_core::{
    Device, Module, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor, ggml_file::qtensor_from_ggml},
};

/// A matrix that rows of activations are multiplied by.
pub(crate) struct Matrix {
    weights: QMatMul,
    inputs: usize,
    outputs: usize,
    bytes: usize,
}

/// The vectors of the vocabulary, which may also be the output matrix.
pub(crate) struct Embedding {
    table: Arc<QTensor>,
    width: usize,
    rows: usize,
}

// === impl Raw ===

impl Raw {
    fn malformed(&self, reason: impl std::fmt::Display) -> LoadError {
        LoadError::Malformed { path: self.path.clone(), reason: format!("tensor `{}`: {reason}", self.name) }
    }

    /// Fails unless the tensor has this shape.
    fn expect(&self, shape: &[usize]) -> Result<(), LoadError> {
        if self.shape == shape {
            return Ok(());
        }
        let text = |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("×");
        Err(self.malformed(format!("it is {}, expected {}", text(&self.shape), text(shape))))
    }

    /// Its numbers.
    pub(crate) fn numbers(&self, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        self.expect(shape)?;
        let tensor = qtensor_from_ggml(self.format, &self.data, self.shape.clone(), &Device::Cpu)
            .and_then(|tensor| tensor.dequantize(&Device::Cpu))
            .and_then(|tensor| tensor.flatten_all()?.to_vec1::<f32>());
        tensor.map_err(|error| self.malformed(error))
    }

    fn quantized(&self, shape: &[usize], format: GgmlDType) -> Result<QTensor, LoadError> {
        self.expect(shape)?;
        let tensor = qtensor_from_ggml(self.format, &self.data, self.shape.clone(), &Device::Cpu)
            .map_err(|error| self.malformed(error))?;
        if tensor.dtype() == format {
            return Ok(tensor);
        }
        tensor
            .dequantize(&Device::Cpu)
            .and_then(|numbers| QTensor::quantize(&numbers, format))
            .map_err(|error| self.malformed(error))
    }

    fn multiplied_as(&self, as_shipped: bool) -> GgmlDType {
        multiplied_as(self.format, as_shipped)
    }
}

/// The format in which a tensor is multiplied: its own where that is fast (or wanted), else Q8_0.
pub(super) fn multiplied_as(format: GgmlDType, as_shipped: bool) -> GgmlDType {
    use GgmlDType::{Q2K, Q3K, Q4_0, Q4K, Q5K, Q6K, Q8_0};
    match format {
        Q8_0 | Q4_0 | Q2K | Q3K | Q4K | Q5K | Q6K => format,
        format if as_shipped => format,
        _ => Q8_0,
    }
}

// === impl Matrix ===

impl Matrix {
    /// Takes a tensor of `outputs` rows. With `as_shipped`, its format stays even where it is slow.
    pub(crate) fn new(raw: &Raw, outputs: usize, inputs: usize, as_shipped: bool) -> Result<Self, LoadError> {
        let weights = raw.quantized(&[outputs, inputs], raw.multiplied_as(as_shipped))?;
        let bytes = weights.storage_size_in_bytes();
        let weights = QMatMul::from_qtensor(weights).map_err(|error| raw.malformed(error))?;
        Ok(Self { weights, inputs, outputs, bytes })
    }

    /// How many bytes the weights take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Multiplies rows of activations.
    pub(crate) fn apply(&self, rows: &[f32]) -> candle_core::Result<Vec<f32>> {
        let count = rows.len() / self.inputs;
        let rows = Tensor::from_slice(rows, (count, self.inputs), &Device::Cpu)?;
        let product = self.weights.forward(&rows)?;
        debug_assert_eq!(product.dims(), [count, self.outputs]);
        product.flatten_all()?.to_vec1()
    }
}

// === impl Embedding ===

impl Embedding {
    /// Takes a tensor of `rows` vectors. With `as_shipped`, its format stays even where it is slow.
    pub(crate) fn new(raw: &Raw, rows: usize, width: usize, as_shipped: bool) -> Result<Self, LoadError> {
        Ok(Self { table: raw.quantized(&[rows, width], raw.multiplied_as(as_shipped))?.into(), width, rows })
    }

    /// The same table as the output matrix.
    pub(crate) fn as_matrix(&self) -> candle_core::Result<Matrix> {
        let weights = QMatMul::from_arc(self.table.clone())?;
        Ok(Matrix { weights, inputs: self.width, outputs: self.rows, bytes: 0 })
    }

    /// How many bytes the table takes.
    pub(crate) fn bytes(&self) -> usize {
        self.table.storage_size_in_bytes()
    }

    /// The vectors of tokens, one after another.
    pub(crate) fn rows(&self, tokens: &[u32]) -> candle_core::Result<Vec<f32>> {
        let data = self.table.data()?;
        let format = self.table.dtype();
        let row_bytes = self.width / format.block_size() * format.type_size();
        let mut numbers = Vec::with_capacity(tokens.len() * self.width);
        for token in tokens {
            let start = *token as usize * row_bytes;
            let Some(row) = data.get(start..start + row_bytes) else {
                candle_core::bail!("token {token} is outside of the vocabulary of {} tokens", self.rows);
            };
            let row = qtensor_from_ggml(format, row, vec![self.width], &Device::Cpu)?;
            numbers.extend(row.dequantize(&Device::Cpu)?.to_vec1::<f32>()?);
        }
        Ok(numbers)
    }
}
