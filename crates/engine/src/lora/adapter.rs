//! The matrices of one adapter.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use pulp::Arch;

use super::settings::Settings;
use crate::{
    LoadError,
    model::{Config, Pairs, Projection},
    weights::open_tensors,
};

const SETTINGS: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// A loaded adapter.
pub(crate) struct Adapter {
    pub(crate) name: String,
    /// A number that is unique for each load of an adapter. Cached blocks belong to this number.
    pub(crate) number: u64,
    /// For each layer, the modified matrices with their additions.
    layers: Vec<BTreeMap<Projection, LowRank>>,
}

/// The product of two small matrices, which is added to a large matrix.
pub(crate) struct LowRank {
    /// `rank` rows with the length of the input.
    down: Vec<f32>,
    /// `rank` rows with the length of the output, already scaled.
    up: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

// === impl Adapter ===

impl Adapter {
    /// Whether a folder contains an adapter.
    pub(crate) fn is_in(folder: &Path) -> bool {
        folder.join(SETTINGS).is_file()
    }

    /// Reads the adapter in a folder. Its shape must match the model, and its rank must not be above `max_rank`.
    pub(crate) fn load(
        name: &str,
        number: u64,
        folder: &Path,
        config: &Config,
        max_rank: usize,
    ) -> Result<Self, LoadError> {
        let settings_path = folder.join(SETTINGS);
        let Settings { rank, scale } = Settings::open(&settings_path)?;
        let malformed = |path: &Path, reason: String| LoadError::malformed(path, reason);
        if rank > max_rank {
            return Err(malformed(
                &settings_path,
                format!("LoRA rank {rank} is greater than max_lora_rank {max_rank}."),
            ));
        }
        let path = folder.join(WEIGHTS);
        if !path.is_file() {
            return Err(malformed(folder, format!("`{WEIGHTS}` is missing")));
        }
        let tensors = open_tensors(std::slice::from_ref(&path))?;
        let mut places: BTreeMap<(usize, Projection), [Option<String>; 2]> = BTreeMap::new();
        let mut unexpected = BTreeSet::new();
        for tensor in tensors.names() {
            match place(tensor).filter(|(layer, ..)| *layer < config.layers) {
                Some((layer, projection, side)) => {
                    places.entry((layer, projection)).or_default()[side] = Some(tensor.to_owned());
                }
                None => {
                    unexpected.insert(tensor);
                }
            }
        }
        if !unexpected.is_empty() || places.is_empty() {
            let expected: Vec<&str> = Projection::ALL
                .iter()
                .filter_map(|projection| projection.module().rsplit('.').next())
                .collect();
            let received: Vec<&str> = unexpected.iter().take(5).copied().collect();
            return Err(malformed(
                &path,
                format!(
                    "expected target modules in {} of {} layers but received [{}]",
                    expected.join(", "),
                    config.layers,
                    received.join(", ")
                ),
            ));
        }
        let mut layers: Vec<BTreeMap<Projection, LowRank>> =
            (0..config.layers).map(|_| BTreeMap::new()).collect();
        for ((layer, projection), names) in places {
            let [Some(down), Some(up)] = names else {
                let half = names.into_iter().flatten().next().unwrap_or_default();
                return Err(malformed(&path, format!("`{half}` has no counterpart (lora_A and lora_B)")));
            };
            let (inputs, outputs) = projection.shape(config);
            let read = |name: &str, shape: [usize; 2]| match tensors.read(name)? {
                Some(raw) => raw.numbers(&shape),
                None => Err(malformed(&path, format!("`{name}` is missing"))),
            };
            let down = read(&down, [rank, inputs])?;
            let mut up = read(&up, [outputs, rank])?;
            if config.rope_pairs == Pairs::Neighbours
                && matches!(projection, Projection::Query | Projection::Key)
            {
                up = interleave_halves(&up, rank, config.head_width);
            }
            layers[layer].insert(projection, LowRank::new(down, &up, rank, scale));
        }
        Ok(Self { name: name.to_owned(), number, layers })
    }

    /// An adapter that changes nothing.
    #[cfg(test)]
    pub(crate) fn empty(name: &str, number: u64) -> Self {
        Self { name: name.to_owned(), number, layers: Vec::new() }
    }

    /// Returns the addition to a matrix of a layer.
    pub(crate) fn of(&self, layer: usize, projection: Projection) -> Option<&LowRank> {
        self.layers.get(layer)?.get(&projection)
    }
}

// === impl LowRank ===

impl LowRank {
    /// Converts matrices from PEFT's layout: `down` has `rank` rows of inputs, and `up` has a row of `rank` numbers for each
    /// output.
    fn new(down: Vec<f32>, up: &[f32], rank: usize, scale: f32) -> Self {
        let (inputs, outputs) = (down.len() / rank, up.len() / rank);
        let up =
            (0..rank).flat_map(|column| up.iter().skip(column).step_by(rank).map(|number| number * scale));
        Self { up: up.collect(), down, inputs, outputs }
    }

    /// Adds the adapter's product with rows of activations to `products`.
    pub(crate) fn add(&self, rows: &[f32], products: &mut [f32]) {
        Arch::new().dispatch(|| {
            for (row, products) in rows.chunks_exact(self.inputs).zip(products.chunks_exact_mut(self.outputs))
            {
                for (down, up) in self.down.chunks_exact(self.inputs).zip(self.up.chunks_exact(self.outputs))
                {
                    let weight = crate::model::dot(down, row);
                    for (product, up) in products.iter_mut().zip(up) {
                        *product += weight * up;
                    }
                }
            }
        });
    }
}

/// Reads a tensor's name: the layer, the matrix and the side (0 for A, 1 for B).
fn place(name: &str) -> Option<(usize, Projection, usize)> {
    let name = name.strip_prefix("base_model.model.")?;
    let name = name.strip_prefix("model.").unwrap_or(name).strip_prefix("layers.")?;
    let (layer, name) = name.split_once('.')?;
    let (module, side) = match name.strip_suffix(".lora_A.weight") {
        Some(module) => (module, 0),
        None => (name.strip_suffix(".lora_B.weight")?, 1),
    };
    let projection = Projection::ALL.into_iter().find(|projection| projection.module() == module)?;
    Some((layer.parse().ok()?, projection, side))
}

/// Reorders the rows of queries or keys as in Llama's GGUF files: each row of a head's first half is followed by its partner
/// in the second half.
fn interleave_halves(rows: &[f32], rank: usize, head_width: usize) -> Vec<f32> {
    let half = head_width / 2;
    rows.chunks_exact(head_width * rank)
        .flat_map(|head| {
            (0..half).flat_map(move |pair| {
                [pair, pair + half].into_iter().flat_map(move |row| &head[row * rank..(row + 1) * rank])
            })
        })
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_layer_matrix_and_side() {
        assert_eq!(
            place("base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"),
            Some((3, Projection::Query, 0))
        );
        assert_eq!(
            place("base_model.model.layers.0.mlp.down_proj.lora_B.weight"),
            Some((0, Projection::Down, 1))
        );
        for name in [
            "base_model.model.lm_head.lora_A.weight",
            "base_model.model.model.layers.x.mlp.up_proj.lora_A.weight",
            "base_model.model.model.layers.0.mlp.up_proj.lora_magnitude_vector",
            "model.layers.0.mlp.up_proj.weight",
        ] {
            assert_eq!(place(name), None, "{name}");
        }
    }

    #[test]
    fn products_are_added_scaled() {
        // Rank 2, from 2 inputs to 3 outputs.
        let low = LowRank::new(vec![1.0, 2.0, 0.0, 1.0], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2, 0.5);
        let mut products = [10.0, 10.0, 10.0];
        low.add(&[1.0, 1.0], &mut products);
        assert_eq!(products.map(f32::to_bits), [11.5_f32, 10.5, 12.0].map(f32::to_bits));
    }

    #[test]
    fn partners_become_neighbours() {
        assert_eq!(interleave_halves(&[0.0, 1.0, 2.0, 3.0], 1, 4), [0.0, 2.0, 1.0, 3.0]);
    }
}
