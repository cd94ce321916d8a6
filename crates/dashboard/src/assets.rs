//! The page itself: files that the browser gets unchanged.

use http::{HeaderMap, HeaderValue, header};

/// The content security policy: scripts, styles and requests only from this server, nothing inline, and no page may embed
/// this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file of the page.
pub(crate) struct Asset {
    path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal, $file:literal, $kind:expr;)*) => {
        &[$(Asset { path: $path, kind: $kind, bytes: include_bytes!(concat!("../web/", $file)) }),*]
    };
}

const ASSETS: &[Asset] = assets! {
    "/", "index.html", "text/html; charset=utf-8";
    "/app.css", "app.css", "text/css; charset=utf-8";
    "/favicon.svg", "favicon.svg", "image/svg+xml";
    "/api-keys.js", "api-keys.js", SCRIPT;
    "/app.js", "app.js", SCRIPT;
    "/api.js", "api.js", SCRIPT;
    "/charts.js", "charts.js", SCRIPT;
    "/decisions.js", "decisions.js", SCRIPT;
    "/edit.js", "edit.js", SCRIPT;
    "/fields.js", "fields.js", SCRIPT;
    "/format.js", "format.js", SCRIPT;
    "/keys.js", "keys.js", SCRIPT;
    "/logs.js", "logs.js", SCRIPT;
    "/overview.js", "overview.js", SCRIPT;
    "/playground.js", "playground.js", SCRIPT;
    "/replicas.js", "replicas.js", SCRIPT;
    "/services.js", "services.js", SCRIPT;
    "/simulate.js", "simulate.js", SCRIPT;
    "/traffic.js", "traffic.js", SCRIPT;
    "/tree.js", "tree.js", SCRIPT;
    "/way.js", "way.js", SCRIPT;
    "/yaml.js", "yaml.js", SCRIPT;
    "/vendor/htm-preact.js", "vendor/htm-preact.js", SCRIPT;
};

/// Returns the file at this path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Sets the security headers of every response.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_no_inline_script_or_style_and_asks_nobody_else() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            if asset.path == "/" {
                assert!(
                    !text.contains("<style") && !text.contains(" style=") && !text.contains(" on"),
                    "{text}"
                );
                assert_eq!(
                    text.matches("<script").count(),
                    text.matches("<script type=\"module\" src=").count()
                );
            }
            let own = !asset.path.starts_with("/vendor/") && asset.kind == SCRIPT;
            assert!(!own || !text.contains("innerHTML"), "{}", asset.path);
            assert!(!own || !text.contains("https://"), "{}", asset.path);
        }
    }
}
