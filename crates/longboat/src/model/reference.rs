//! What a person types for a model: a name of the catalogue, an address, a file or a folder.

use std::path::Path;

use anyhow::{Context, bail};
use longboat_download::{
    ALLOW_VARIABLE, IGNORE_VARIABLE,
    address::{Address, Scheme},
};
use longboat_fetch::Settings;
use longboat_key::nearest;

use super::catalogue::{self, CatalogueModel};

/// The longest name of a service that is made from the name of a model: names of its objects are longer.
const MAX_NAME: usize = 40;

/// The patterns that select files of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilePatterns {
    pub(crate) allow: Option<String>,
    pub(crate) ignore: Option<String>,
}

/// A model that a person named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelReference {
    pub(crate) address: Address,
    pub(crate) patterns: FilePatterns,
    /// The name of the model in requests.
    pub(crate) name: String,
    /// The name of the service that serves it.
    pub(crate) service: String,
    /// Its row of the catalogue.
    pub(crate) entry: Option<&'static CatalogueModel>,
}

// === impl FilePatterns ===

impl FilePatterns {
    /// The environment variables that have these patterns.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [(ALLOW_VARIABLE, &self.allow), (IGNORE_VARIABLE, &self.ignore)];
        all.into_iter().filter_map(|(name, pattern)| Some((name, pattern.as_deref()?)))
    }

    /// Returns the settings of a download of these files.
    pub(crate) fn settings(&self, settings: &Settings) -> Settings {
        self.variables().fold(settings.clone(), |settings, (name, pattern)| settings.with(name, pattern))
    }
}

// === impl ModelReference ===

impl ModelReference {
    /// Finds out what a person means. `file` selects the files of a repository with several models.
    ///
    /// # Errors
    ///
    /// If it is no model; the error says what is expected, or what is similar.
    pub(crate) fn parse(text: &str, file: Option<&str>) -> anyhow::Result<Self> {
        if let Some(entry) = catalogue::find(text) {
            let address = Address::parse(format!("hf://{}", entry.repository));
            let ignore = entry.ignore.map(str::to_owned);
            return Ok(Self {
                patterns: FilePatterns { allow: file.map(str::to_owned), ignore },
                name: entry.repository.to_owned(),
                service: entry.name.replace('.', "-"),
                address,
                entry: Some(entry),
            });
        }
        let address = if text.contains("://") { Address::parse(text) } else { path(text)? };
        if address.credentials().is_some() {
            bail!(
                "`{address}` has credentials: expected them in the environment, where other users do not see them"
            );
        }
        if let Some(why) = address.problem().or_else(|| address.unsupported()) {
            let hint = address.meant().map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
            bail!("cannot use `{address}`: {why}{hint}");
        }
        let name = match address.scheme() {
            Scheme::HuggingFace => {
                let model =
                    address.hub_model().map_err(|why| anyhow::anyhow!("cannot use `{address}`: {why}"))?;
                model.0.to_owned()
            }
            Scheme::Other | Scheme::Absent => {
                bail!(
                    "cannot use `{address}`: expected hf://OWNER/MODEL, a GGUF file, or a folder with a model"
                )
            }
            _ => file_name(&address),
        };
        if file.is_some() && address.scheme() == Scheme::File {
            bail!("`--file` selects a file of a repository: for a model on this machine, name its file");
        }
        let service = service_name(&name);
        let patterns = FilePatterns { allow: file.map(str::to_owned), ignore: None };
        Ok(Self { address, patterns, name, service, entry: None })
    }
}

/// Returns the address of a model on this machine.
fn path(text: &str) -> anyhow::Result<Address> {
    let path = Path::new(text);
    if path.exists() {
        let absolute = path.canonicalize().with_context(|| format!("cannot find `{text}`"))?;
        // The file of a content-addressed store has no telling name, so the link to it counts.
        let absolute = if path.is_file() { std::path::absolute(path)? } else { absolute };
        let absolute =
            absolute.to_str().with_context(|| format!("the path `{}` is not UTF-8", absolute.display()))?;
        return Ok(Address::parse(format!("file://{absolute}")));
    }
    let host = ["hf.co/", "huggingface.co/"].into_iter().find_map(|host| text.strip_prefix(host));
    if let Some(repository) = host {
        let meant = match repository.split_once(':') {
            // As ollama chooses a file of a repository.
            Some((repository, quantization)) => format!("hf://{repository} --file '*{quantization}.gguf'"),
            None => format!("hf://{repository}"),
        };
        bail!("`{text}` is no model: did you mean `{meant}`?");
    }
    if text.contains('/') || path.extension().is_some_and(|extension| extension == "gguf") {
        let is_repository = text.split('/').count() == 2 && !text.starts_with(['.', '/', '~']);
        let hint = if is_repository { format!(": did you mean `hf://{text}`?") } else { String::new() };
        bail!("file or folder `{text}` does not exist{hint}");
    }
    let names = || catalogue::MODELS.iter().map(|model| model.name);
    let all: Vec<_> = names().collect();
    // Other programs write `smollm2:135m`.
    let dashed = text.replace(':', "-");
    let meant = catalogue::find(&dashed).map(|model| model.name).or_else(|| nearest(names(), &dashed));
    let hint = meant.map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
    bail!(
        "the catalogue has no model `{text}`{hint}\nit has {}; further models are hf://OWNER/MODEL, a GGUF file, or a folder",
        all.join(", ")
    )
}

/// Returns the last part of an address, without the ending of a GGUF file. Scripts of pods get the name as one word, so other
/// characters become dashes.
fn file_name(address: &Address) -> String {
    let rest = address.rest().trim_end_matches('/');
    let last = rest.rsplit('/').next().unwrap_or(rest);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let name = last.strip_suffix(".gguf").unwrap_or(last);
    name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// Makes a name of a service: lower-case letters, digits and dashes, beginning with a letter.
fn service_name(model: &str) -> String {
    let last = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let dashed: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let start = dashed.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let name: String = start.chars().take(MAX_NAME).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { "model".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ModelReference {
        ModelReference::parse(text, None).unwrap()
    }

    fn refused(text: &str) -> String {
        ModelReference::parse(text, None).unwrap_err().to_string()
    }

    #[test]
    fn a_model_is_a_name_of_the_catalogue_an_address_a_file_or_a_folder() {
        let small = parsed("SmolLM2-135M");
        assert_eq!(small.address.as_str(), "hf://HuggingFaceTB/SmolLM2-135M-Instruct");
        assert_eq!(
            (small.name.as_str(), small.service.as_str()),
            ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m")
        );
        assert_eq!(small.patterns.variables().collect::<Vec<_>>(), [("STORAGE_IGNORE_PATTERNS", "onnx/*")]);

        let hub = ModelReference::parse("hf://Qwen/Qwen3-0.6B-GGUF:main", Some("*Q8_0.gguf")).unwrap();
        assert_eq!((hub.name.as_str(), hub.service.as_str()), ("Qwen/Qwen3-0.6B-GGUF", "qwen3-0-6b-gguf"));
        assert_eq!(hub.patterns.variables().collect::<Vec<_>>(), [("STORAGE_ALLOW_PATTERNS", "*Q8_0.gguf")]);

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("7b_Model.Q4_1.gguf");
        std::fs::write(&file, "").unwrap();
        let file = parsed(file.to_str().unwrap());
        assert_eq!((file.name.as_str(), file.service.as_str()), ("7b_Model.Q4_1", "b-model-q4-1"));
        assert!(
            file.address.as_str().starts_with("file:///")
                && file.address.as_str().ends_with("7b_Model.Q4_1.gguf")
        );
        assert_eq!(parsed(folder.path().to_str().unwrap()).address.scheme(), Scheme::File);
    }

    #[test]
    fn what_is_no_model_is_refused_with_what_was_meant() {
        for (text, part) in [
            ("smollm2:135m", "did you mean `smollm2-135m`?"),
            ("smolm2-135m", "did you mean `smollm2-135m`?"),
            ("https://huggingface.co/o/m", "did you mean `hf://o/m`?"),
            ("s3://", "the bucket is missing"),
            ("llama", "the catalogue has no model `llama`"),
            ("Qwen/Qwen3-0.6B", "did you mean `hf://Qwen/Qwen3-0.6B`?"),
            ("hf.co/Qwen/Qwen3-0.6B", "did you mean `hf://Qwen/Qwen3-0.6B`?"),
            ("hf.co/a/B-GGUF:Q4_K_M", "did you mean `hf://a/B-GGUF --file '*Q4_K_M.gguf'`?"),
            ("./missing.gguf", "`./missing.gguf` does not exist"),
            ("hf://only", "expected hf://OWNER/MODEL"),
            ("ftp://host/x", "expected hf://OWNER/MODEL, a GGUF file"),
        ] {
            let said = refused(text);
            assert!(said.contains(part), "{text}: {said}");
        }
        let said = refused("https://user:s3cr3t@host/m.gguf");
        assert!(said.contains("in the environment") && !said.contains("s3cr3t"), "{said}");
    }

    #[test]
    fn every_model_of_the_catalogue_makes_a_service() {
        for model in &catalogue::MODELS {
            let found = parsed(model.name);
            assert!(
                found.address.hub_model().is_ok() && found.service == service_name(model.name),
                "{found:?}"
            );
        }
        assert!(catalogue::MODELS.is_sorted_by_key(|model| model.megabytes));
    }
}
