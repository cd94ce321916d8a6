//! The page of annotations.

use std::{collections::BTreeSet, fmt::Write as _, io};

use crate::{
    NOTE, cell,
    sentences::{Annotation, SENTENCES},
    source,
};

/// Annotations of an S3 store, without the common beginning `serving.kserve.io/s3-`, and what each sets.
const S3: [(&str, &str); 9] = [
    ("endpoint", "Host, or URL, of a store that is not Amazon's. A scheme decides about TLS."),
    ("usehttps", "`0` for a store without TLS, if the endpoint has no scheme."),
    ("verifyssl", "`0` accepts every certificate of the store."),
    ("useanoncredential", "`true` for a public bucket: requests are not signed."),
    ("region", "Region of the bucket."),
    ("usevirtualbucket", "`true` puts the bucket's name into the host."),
    ("useaccelerate", "`true` uses Amazon's accelerated endpoints."),
    ("cabundle", "Path, in the container, of the certificates that the store's is checked against."),
    ("cabundle-configmap", "ConfigMap with these certificates."),
];

/// Returns annotations of an S3 store that have no sentence here, and sentences about keys that the code does not have. `read`
/// returns a file below `crates`.
pub(crate) fn gaps(read: impl Fn(&str) -> io::Result<String>) -> io::Result<Vec<String>> {
    let text: String = read(S3_SOURCE)?.split_whitespace().collect();
    // `("key", "VARIABLE", &platform.s3_default)`
    let keys: BTreeSet<&str> = text
        .split("\",&platform.s3_")
        .filter_map(|before| Some(before.rsplit_once("(\"")?.1.split_once('"')?.0))
        .collect();
    let told: BTreeSet<&str> = S3.map(|(key, _)| key).into();
    let mut gaps: Vec<String> =
        keys.symmetric_difference(&told).map(|key| format!("the annotation {S3_PREFIX}{key}")).collect();
    for Annotation { file, key, .. } in &SENTENCES.annotations {
        if !read(file)?.contains(&format!("\"{key}\"")) {
            gaps.push(format!("the annotation {key} is not in crates/{file}"));
        }
    }
    Ok(gaps)
}

const S3_SOURCE: &str = "plan/src/workload/storage/s3.rs";
const S3_PREFIX: &str = "serving.kserve.io/s3-";

/// Makes the page from the source that defines the keys.
pub(crate) fn page(text: &str) -> String {
    let mut page = format!(
        "# Annotations\n\n{NOTE}\n\nAnnotations that Longboat reads or writes. Annotations that begin with \
         `internal.` are for its own use: do not set them.\n\n| annotation | meaning |\n|---|---|\n"
    );
    for item in source::constants(text).iter().filter(|item| item.name.contains('/')) {
        let _ = writeln!(page, "| `{}` | {} |", item.name, cell(&item.doc));
    }
    page.push_str("\n## Annotations of other objects\n\n| annotation | on | meaning |\n|---|---|---|\n");
    for Annotation { key, object, meaning, .. } in &SENTENCES.annotations {
        let _ = writeln!(page, "| `{key}` | {object} | {meaning} |");
    }
    page.push_str(
        "\n## S3\n\nOn the Secret with the credentials of an S3 store, or on the service account with an IAM role. Without an \
         annotation, the key of the Secret with the name of the variable counts, then the [settings](settings.md).\n\n\
         | annotation | meaning |\n|---|---|\n",
    );
    for (key, meaning) in S3 {
        let _ = writeln!(page, "| `{S3_PREFIX}{key}` | {meaning} |");
    }
    page.push_str(
        "\n## Annotations that reach the pods\n\nAnnotations of a service whose keys begin with one of these prefixes are \
         copied to its workloads and their pods:\n\n",
    );
    let propagated = source::block(text, "pub const PROPAGATED_PREFIXES");
    let propagated = propagated.split_once(';').and_then(|(_, rest)| rest.split_once("];"));
    let names = propagated.map_or("", |(list, _)| list).split('"').skip(1).step_by(2);
    for name in names {
        let _ = writeln!(page, "* `{name}`");
    }
    for item in
        source::constants(text).iter().filter(|item| !item.name.contains('/') && item.name.contains('.'))
    {
        let _ = writeln!(page, "* `{}`: LeaderWorkerSets only", item.name);
    }
    page
}
