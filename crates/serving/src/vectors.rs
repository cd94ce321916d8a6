//! The vectors of embedding models.

use crate::Refusal;

/// The properties of a model's vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vectors {
    /// The number of elements in a vector.
    pub width: usize,
    /// Whether vectors have length 1.
    pub are_normalised: bool,
    /// Whether a prefix of a vector is a valid vector (matryoshka representation).
    pub is_matryoshka: bool,
    /// The lengths to which vectors can be cut; any length if this is empty.
    pub lengths: Vec<usize>,
}

// === impl Vectors ===

impl Vectors {
    /// Returns the length of the vectors that the request asks for with `dimensions`.
    pub(crate) fn length(&self, model: &str, dimensions: Option<i64>) -> Result<usize, Refusal> {
        let Some(dimensions) = dimensions else { return Ok(self.width) };
        let refuse = |message: String| Err(Refusal::field("dimensions", message));
        if !self.is_matryoshka {
            return refuse(format!(
                "Model \"{model}\" does not support matryoshka representation, changing output dimensions will lead to \
                 poor results."
            ));
        }
        let fits = |length: &usize| {
            *length > 0 && *length <= self.width && (self.lengths.is_empty() || self.lengths.contains(length))
        };
        match usize::try_from(dimensions).ok().filter(fits) {
            Some(length) => Ok(length),
            None if self.lengths.is_empty() => {
                refuse(format!("dimensions must be from 1 to {}, got {dimensions}.", self.width))
            }
            None => {
                let lengths: Vec<String> = self.lengths.iter().map(ToString::to_string).collect();
                refuse(format!(
                    "Model \"{model}\" only supports [{}] matryoshka dimensions, use other output dimensions will lead \
                     to poor results.",
                    lengths.join(", ")
                ))
            }
        }
    }
}

/// Scales a vector to length 1.
pub fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        for number in vector {
            *number /= length;
        }
    }
}
