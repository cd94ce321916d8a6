//! Matrices of weights. They are multiplied as quantized blocks, and read as numbers row by row.

use std::sync::Arc;

use super::raw::RawTensor;
use crate::{
    LoadError,
    kernels::{Format, PackedMatrix},
};
use candle_core::{
    Device, Module, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor, ggml_file::qtensor_from_ggml},
};

/// A matrix for the multiplication with rows of activations.
pub(crate) struct Matrix {
    weights: Weights,
    inputs: usize,
    outputs: usize,
    bytes: usize,
}

/// The embedding table, which may also be the output matrix.
pub(crate) struct Embedding {
    table: Table,
    width: usize,
    rows: usize,
}

/// Weights for multiplication.
enum Weights {
    /// By the crate's own kernels.
    Packed(Arc<PackedMatrix>),
    /// By candle.
    Blocks(QMatMul),
}

/// Weights that can be read row by row, and also multiplied.
enum Table {
    Packed(Arc<PackedMatrix>),
    Blocks(Arc<QTensor>),
}

// === impl RawTensor ===

impl RawTensor {
    fn malformed(&self, reason: impl std::fmt::Display) -> LoadError {
        LoadError::malformed(&self.path, format!("tensor `{}`: {reason}", self.name))
    }

    /// Fails unless the tensor has this shape.
    fn expect(&self, shape: &[usize]) -> Result<(), LoadError> {
        if self.shape == shape {
            return Ok(());
        }
        let text = |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("×");
        Err(self.malformed(format!("it is {}, expected {}", text(&self.shape), text(shape))))
    }

    /// Returns the numbers of the tensor.
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

    /// Converts the tensor to the format in which it is multiplied.
    fn table(&self, shape: [usize; 2], as_shipped: bool) -> Result<Table, LoadError> {
        let wanted = multiplied_as(self.format, as_shipped);
        if let Some(format) = packable(wanted).filter(|_| PackedMatrix::is_available()) {
            let [outputs, inputs] = shape;
            let packed = if wanted == self.format {
                self.expect(&shape)?;
                PackedMatrix::new(format, &self.data, outputs, inputs)
            } else {
                let converted = self.quantized(&shape, wanted)?;
                let data = converted.data().map_err(|error| self.malformed(error))?;
                PackedMatrix::new(format, &data, outputs, inputs)
            };
            if let Some(packed) = packed {
                return Ok(Table::Packed(packed.into()));
            }
        }
        Ok(Table::Blocks(self.quantized(&shape, wanted)?.into()))
    }
}

/// Returns the format in which a tensor is multiplied: its own if that is fast or wanted, or else Q8_0.
fn multiplied_as(format: GgmlDType, as_shipped: bool) -> GgmlDType {
    use GgmlDType::{Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5K, Q6K, Q8_0};
    match format {
        Q8_0 | Q4_0 | Q2K | Q3K | Q4K | Q5K | Q6K => format,
        Q4_1 if PackedMatrix::is_available() => format,
        format if as_shipped => format,
        _ => Q8_0,
    }
}

/// Returns the format whose size the tensor has in memory.
pub(super) fn stored_format(format: GgmlDType, as_shipped: bool) -> GgmlDType {
    match multiplied_as(format, as_shipped) {
        // In the interleaved layout, a block of Q4_0 also has a minimum.
        GgmlDType::Q4_0 if PackedMatrix::is_available() => GgmlDType::Q4_1,
        // Candle multiplies these as whole numbers.
        GgmlDType::F16 | GgmlDType::BF16 => GgmlDType::F32,
        format => format,
    }
}

fn packable(format: GgmlDType) -> Option<Format> {
    match format {
        GgmlDType::Q4_0 => Some(Format::Q4_0),
        GgmlDType::Q4_1 => Some(Format::Q4_1),
        GgmlDType::Q8_0 => Some(Format::Q8_0),
        _ => None,
    }
}

// === impl Table ===

impl Table {
    fn bytes(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.bytes(),
            Self::Blocks(table) => table.storage_size_in_bytes(),
        }
    }

    fn weights(&self) -> candle_core::Result<Weights> {
        Ok(match self {
            Self::Packed(packed) => Weights::Packed(Arc::clone(packed)),
            Self::Blocks(table) => Weights::Blocks(QMatMul::from_arc(Arc::clone(table))?),
        })
    }
}

// === impl Matrix ===

impl Matrix {
    /// Creates a matrix from a tensor with `outputs` rows. With `as_shipped`, the tensor keeps its format even if that is
    /// slow.
    pub(crate) fn new(
        raw: &RawTensor,
        outputs: usize,
        inputs: usize,
        as_shipped: bool,
    ) -> Result<Self, LoadError> {
        let table = raw.table([outputs, inputs], as_shipped)?;
        let weights = table.weights().map_err(|error| raw.malformed(error))?;
        Ok(Self { weights, inputs, outputs, bytes: table.bytes() })
    }

    /// The size of the weights in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Multiplies rows of activations.
    pub(crate) fn apply(&self, rows: &[f32]) -> candle_core::Result<Vec<f32>> {
        let weights = match &self.weights {
            Weights::Packed(packed) => return Ok(packed.apply(rows)),
            Weights::Blocks(weights) => weights,
        };
        let count = rows.len() / self.inputs;
        let rows = Tensor::from_slice(rows, (count, self.inputs), &Device::Cpu)?;
        let product = weights.forward(&rows)?;
        debug_assert_eq!(product.dims(), [count, self.outputs]);
        product.flatten_all()?.to_vec1()
    }
}

// === impl Embedding ===

impl Embedding {
    /// Creates the table from a tensor with `rows` vectors. With `as_shipped`, the tensor keeps its format even if that is
    /// slow.
    pub(crate) fn new(
        raw: &RawTensor,
        rows: usize,
        width: usize,
        as_shipped: bool,
    ) -> Result<Self, LoadError> {
        Ok(Self { table: raw.table([rows, width], as_shipped)?, width, rows })
    }

    /// Returns the same table as an output matrix.
    pub(crate) fn as_matrix(&self) -> candle_core::Result<Matrix> {
        Ok(Matrix { weights: self.table.weights()?, inputs: self.width, outputs: self.rows, bytes: 0 })
    }

    /// The size of the table in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Returns the vectors of tokens, one after the other.
    pub(crate) fn rows(&self, tokens: &[u32]) -> candle_core::Result<Vec<f32>> {
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.rows) {
            candle_core::bail!("token {token} is outside of the vocabulary of {} tokens", self.rows);
        }
        let mut numbers = Vec::with_capacity(tokens.len() * self.width);
        let table = match &self.table {
            Table::Packed(packed) => {
                for token in tokens {
                    packed.row(*token as usize, &mut numbers);
                }
                return Ok(numbers);
            }
            Table::Blocks(table) => table,
        };
        let data = table.data()?;
        let format = table.dtype();
        let row_bytes = self.width / format.block_size() * format.type_size();
        for token in tokens {
            let row = &data[*token as usize * row_bytes..][..row_bytes];
            let row = qtensor_from_ggml(format, row, vec![self.width], &Device::Cpu)?;
            numbers.extend(row.dequantize(&Device::Cpu)?.to_vec1::<f32>()?);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_formats_depend_on_the_flag() {
        for (format, as_shipped, kept) in [
            (GgmlDType::F16, false, GgmlDType::Q8_0),
            (GgmlDType::F16, true, GgmlDType::F32),
            (GgmlDType::BF16, true, GgmlDType::F32),
            (GgmlDType::Q6K, true, GgmlDType::Q6K),
        ] {
            assert_eq!(stored_format(format, as_shipped), kept, "{format:?}");
        }
    }
}
