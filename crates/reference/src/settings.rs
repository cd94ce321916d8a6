//! The page of the platform's settings. The types that parse the settings determine the keys.

use std::fmt::Write as _;

use crate::{NOTE, cell, differences, sentences::SENTENCES, source};

/// Structs that read the ConfigMap, and the path of their fields.
const STRUCTS: [(&str, &str); 10] = [
    ("RawIngress", "ingress"),
    ("RawStorage", "storageInitializer"),
    ("Credentials", "credentials"),
    ("GcsCredentials", "credentials.gcs"),
    ("S3Credentials", "credentials.s3"),
    ("RawScheduler", "scheduler"),
    ("Autoscaling", "autoscaling-wva-controller-config"),
    ("Prometheus", "autoscaling-wva-controller-config.prometheus"),
    ("RawLocalModel", "localModel"),
    ("RawLongboat", "longboat"),
];

/// Fields that hold a struct with a section of its own.
const SECTIONS: [&str; 3] =
    ["credentials.gcs", "credentials.s3", "autoscaling-wva-controller-config.prometheus"];

/// Paths of all fields, with their types.
fn paths(text: &str) -> Vec<(String, String)> {
    let fields = STRUCTS.iter().flat_map(|(name, path)| {
        source::fields(text, name).into_iter().map(move |item| (format!("{path}.{}", item.name), item.kind))
    });
    fields.filter(|(path, _)| !SECTIONS.contains(&path.as_str())).collect()
}

/// Makes the page from the source of the types.
pub(crate) fn page(text: &str) -> String {
    let mut page = format!(
        "# Settings\n\n{NOTE}\n\nThe settings of the platform are in the ConfigMap `inferenceservice-config` in the namespace of the platform \
         (`kserve`). Each key holds a JSON object. `longboat install` and the Helm chart write the ConfigMap from \
         `platform.settings`. A change reaches all services without a restart of the controller.\n"
    );
    let mut section = "";
    let paths = paths(text);
    for (path, kind) in &paths {
        let key = path.split('.').next().unwrap_or_default();
        if key != section {
            let _ = write!(page, "\n## {key}\n\n| field | type | effect |\n|---|---|---|\n");
            section = key;
        }
        let field = path.strip_prefix(&format!("{key}.")).unwrap_or(path);
        let effect = SENTENCES.settings.get(path).map_or("", String::as_str);
        let _ = writeln!(page, "| `{field}` | {} | {} |", kind_of(kind), cell(effect));
    }
    page
}

/// Fields without a sentence, sentences without a field, and structs that are not known here.
pub(crate) fn gaps(text: &str) -> Vec<String> {
    let paths = paths(text);
    let known = paths.iter().map(|(path, _)| path.as_str());
    let mut gaps = differences("setting", known, SENTENCES.settings.keys().map(String::as_str));
    let readers = text.split("Deserialize)]\n").skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once("struct ")?;
        rest.split_once(' ').map(|(name, _)| name)
    });
    gaps.extend(differences("struct", readers, STRUCTS.iter().map(|(name, _)| *name)));
    gaps
}

fn kind_of(rust: &str) -> &'static str {
    match rust {
        "String" => "string",
        "bool" => "boolean",
        "Option<i64>" | "Option<u16>" => "integer",
        "Vec<String>" => "list of string",
        _ => "any",
    }
}
