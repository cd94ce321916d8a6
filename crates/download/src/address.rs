//! Addresses of models: what is wrong with an address in itself, whatever the network says.

/// The longest name of an owner or a model on the Hugging Face hub.
const MAX_NAME: usize = 96;

/// Returns why nothing can be fetched from a URI, or `None` if that depends on the source.
pub fn problem(uri: &str) -> Option<&'static str> {
    let (scheme, rest) = uri.split_once("://")?;
    let names_nothing = rest.is_empty() || rest.starts_with('/');
    match scheme {
        "hf" => of_hub(uri).err(),
        "file" if !rest.starts_with('/') => Some(
            "expected file:///PATH: the path must be absolute, because the download has a folder of its own",
        ),
        "s3" if names_nothing => Some("expected s3://BUCKET/PATH: the bucket is missing"),
        "gs" if names_nothing => Some("expected gs://BUCKET/PATH: the bucket is missing"),
        "pvc" if names_nothing => Some("expected pvc://CLAIM[/PATH]: the name of the claim is missing"),
        _ => None,
    }
}

/// Returns the repository and the revision of `hf://OWNER/MODEL[:REVISION]`.
///
/// # Errors
/// What is wrong with the address.
pub fn of_hub(uri: &str) -> Result<(&str, &str), &'static str> {
    let rest = uri.strip_prefix("hf://").ok_or("expected hf://OWNER/MODEL[:REVISION]")?;
    let (repository, revision) = rest.split_once(':').unwrap_or((rest, ""));
    let Some((owner, name)) = repository.split_once('/') else {
        return Err("expected hf://OWNER/MODEL[:REVISION]: the owner or the model is missing");
    };
    for part in [owner, name] {
        if part.is_empty() {
            return Err("expected hf://OWNER/MODEL[:REVISION]: the owner or the model is empty");
        }
        if part.contains('/') {
            return Err("expected hf://OWNER/MODEL[:REVISION]: a folder of a model is not allowed");
        }
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let ends = |c: char| matches!(c, '-' | '.');
        if !part.chars().all(taken)
            || part.contains("--")
            || part.contains("..")
            || part.starts_with(ends)
            || part.ends_with(ends)
            || part.len() > MAX_NAME
        {
            return Err(
                "names of owners and models have letters, digits, `-`, `_` and `.`, neither `--` nor `..`, no `-` or `.` \
                 at either end, and at most 96 characters; a revision comes after a colon",
            );
        }
    }
    if revision.chars().any(|c| c.is_control() || c == ' ') || revision.split('/').any(|part| part == "..") {
        return Err("invalid revision");
    }
    Ok((repository, if revision.is_empty() { "main" } else { revision }))
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn an_address_that_names_no_model_has_a_problem() {
        for uri in [
            "hf://Qwen",
            "hf://a/b/c",
            "file://./model",
            "file://model",
            "s3://",
            "s3:///m",
            "gs://",
            "pvc://",
        ] {
            assert!(problem(uri).is_some(), "{uri}");
        }
        for uri in [
            "hf://a/b:v1",
            "file:///mnt/m",
            "s3://bucket",
            "gs://bucket/m",
            "pvc://claim/m",
            "https://host/m.tar",
            "oci://host/image",
            "no-scheme",
        ] {
            assert_eq!(problem(uri), None, "{uri}");
        }
    }
}
