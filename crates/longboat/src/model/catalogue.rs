//! A short catalogue of small open models that the CPU engine computes.

/// A model of the catalogue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CatalogueModel {
    /// The name that people type.
    pub(crate) name: &'static str,
    /// `OWNER/MODEL` on the hub.
    pub(crate) repository: &'static str,
    /// Patterns of files that no engine reads.
    pub(crate) ignore: Option<&'static str>,
    /// The size of the download in megabytes. The hub reports the exact size before the download.
    pub(crate) megabytes: u64,
    /// The licence, by its SPDX identifier.
    pub(crate) licence: &'static str,
}

/// The same model in a format of browsers. It is larger than the model itself.
const ONNX: Option<&str> = Some("onnx/*");

const fn model(
    name: &'static str,
    repository: &'static str,
    ignore: Option<&'static str>,
    megabytes: u64,
    licence: &'static str,
) -> CatalogueModel {
    CatalogueModel { name, repository, ignore, megabytes, licence }
}

/// The catalogue, the smallest model first. All have weights in safetensors, so vLLM serves the same files on a cluster.
pub(crate) const MODELS: [CatalogueModel; 6] = [
    model("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct", ONNX, 273, "Apache-2.0"),
    model("smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct", ONNX, 727, "Apache-2.0"),
    model("qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct", None, 1_000, "Apache-2.0"),
    model("qwen3-0.6b", "Qwen/Qwen3-0.6B", None, 1_519, "Apache-2.0"),
    model("qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B-Instruct", None, 3_099, "Apache-2.0"),
    model("smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct", ONNX, 3_427, "Apache-2.0"),
];

/// Finds a model by its name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static CatalogueModel> {
    MODELS.iter().find(|model| model.name.eq_ignore_ascii_case(name))
}

// === impl CatalogueModel ===

impl CatalogueModel {
    /// Returns the size for people.
    pub(crate) fn size(&self) -> String {
        match self.megabytes {
            0..1_000 => format!("{} MB", self.megabytes),
            megabytes => format!("{}.{} GB", megabytes / 1_000, megabytes % 1_000 / 100),
        }
    }
}
