//! `session-id-producer`: names the header or cookie with a request's session, for plugins that refer to the producer.

use crate::{prelude::*, sessions::SessionSource};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    header_name: String,
    cookie_name: String,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let RawParameters { header_name, cookie_name } = parameters.read()?;
    let source = match (header_name.trim(), cookie_name.trim()) {
        ("", cookie) if !cookie.is_empty() => SessionSource::Cookie(cookie.to_owned()),
        (header, "") if !header.is_empty() => SessionSource::Header(header.to_ascii_lowercase()),
        _ => return Err(parameters.invalid("", "exactly one of headerName and cookieName is required")),
    };
    builder.session_ids.push((parameters.name.to_owned(), source));
    Ok(Plugin::default())
}
