//! GET: one object, or a list of them.

use base64::{
    DecodeError, Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Value, json};

use super::Call;
use crate::{
    answer::Answer,
    form, respond,
    respond::Listing,
    selector::{Selector, field::FieldSelector, label::LabelSelector},
    status::{ApiError, Cause, StatusDetails},
    store::{Key, Snapshot},
};

/// Decodes continue tokens as leniently as kube-apiserver.
const TOKENS: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// `GET …/<name>`.
pub(crate) async fn get(call: &Call<'_>) -> Result<Answer, ApiError> {
    if let Some(text) = call.request.query.get("resourceVersion").filter(|v| !v.is_empty()) {
        let asked = parse_revision(text).map_err(ApiError::unexpected_error)?;
        check_reached(asked, call.state.store.revision())?;
    }
    let stored = call.stored()?;
    let shown = form::show(call.state, &call.resource, stored).await?;
    respond::object(call.request, &call.resource, 200, &shown)
}

/// `GET …/<plural>`.
pub(crate) async fn list(call: &Call<'_>) -> Result<Answer, ApiError> {
    let query = &call.request.query;
    let limit = query.number("limit")?;
    query.number("timeoutSeconds")?;
    let continues = query.get("continue").filter(|c| !c.is_empty());
    let selector = selector(call, continues.is_some(), false)?;
    let namespace = call.path.namespace.as_deref();
    let table = &call.resource.table;
    let limit = limit.and_then(|l| usize::try_from(l).ok()).filter(|l| *l > 0);
    let token = continues.map(Token::decode).transpose()?;
    let asked = match query.get("resourceVersion").filter(|v| !v.is_empty()) {
        None => None,
        Some("0") if token.is_some() => None,
        Some(_) if token.is_some() => {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Some(text) => Some(
            parse_revision(text)
                .map_err(|error| ApiError::bad_request(format!("invalid resource version: {error}")))?,
        ),
    };
    // for version 0, kube-apiserver answers from its cache, which does not paginate
    let limit = limit.filter(|_| asked != Some(0));
    let (snapshot, after) = match token {
        Some(token) => {
            let snapshot = call
                .state
                .store
                .list_at(table, namespace, token.revision)
                .map_err(|_| {
                    ApiError::expired(
                        "The provided continue parameter is too old to display a consistent list result. You must \
                         start a new list without the continue parameter.",
                    )
                })?;
            (snapshot, Some(token.after))
        }
        None => (snapshot_at(call, asked, limit)?, None),
    };
    let revision = snapshot.revision;
    let start = after.map_or(0, |after| snapshot.objects.partition_point(|(key, _)| *key <= after));
    let everything = selector.selects_all();
    let mut chosen = Vec::new();
    let mut last: Option<Key> = None;
    let mut remaining = None;
    for (index, (key, stored)) in snapshot.objects.iter().enumerate().skip(start) {
        if let Some(limit) = limit
            && chosen.len() == limit
        {
            remaining = Some(snapshot.objects.len() - index);
            break;
        }
        last = Some(key.clone());
        // What the selector reads of a large object is freed at once.
        if everything || selector.matches(&stored.for_reader().value) {
            chosen.push(std::sync::Arc::clone(stored));
        }
    }
    let continues = match (&last, remaining) {
        (Some(after), Some(_)) => Some(continue_after(revision, after.clone())),
        _ => None,
    };
    let items = form::show_all(call.state, &call.resource, chosen).await?;
    let listing = Listing { revision, items, continues, remaining: remaining.filter(|_| everything) };
    respond::list(call.request, &call.resource, listing)
}

/// Reads the selectors of a list, a watch or a collection deletion. Like kube-apiserver, this checks the other options
/// before it checks whether the fields are selectable.
pub(crate) fn selector(call: &Call<'_>, continues: bool, watch: bool) -> Result<Selector, ApiError> {
    let query = &call.request.query;
    let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
        .map_err(ApiError::bad_request)?;
    let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
        .map_err(ApiError::bad_request)?;
    check_options(call, continues, watch)?;
    fields.check(&call.resource).map_err(ApiError::bad_request)?;
    // the path of a watch may name a single object
    let name = call.path.name.clone();
    Ok(Selector { labels, fields, name })
}

/// Refuses combinations of `resourceVersion`, `resourceVersionMatch`, `continue` and `sendInitialEvents` that are not valid.
fn check_options(call: &Call<'_>, continues: bool, watch: bool) -> Result<(), ApiError> {
    let query = &call.request.query;
    let version = query.get("resourceVersion").unwrap_or_default();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let initial = query.get("sendInitialEvents");
    let field = "resourceVersionMatch";
    let (given, initial) = (!matching.is_empty(), initial.is_some());
    let forbidden = |why| Cause::forbidden(field, why);
    let unsupported = |known| Cause::unsupported(field, &Value::from(matching), known);
    let causes = if watch {
        vec![
            (initial && matching != "NotOlderThan").then(|| {
                forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
            }),
            (!initial && given).then(|| {
                forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            }),
            (given && matching != "NotOlderThan").then(|| unsupported(&["NotOlderThan"][..])),
            continues.then(|| forbidden("resourceVersionMatch is forbidden when continue is provided")),
        ]
    } else {
        vec![
            initial.then(|| Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")),
            (given && version.is_empty())
                .then(|| forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")),
            (given && continues)
                .then(|| forbidden("resourceVersionMatch is forbidden when continue is provided")),
            (given && !matches!(matching, "Exact" | "NotOlderThan"))
                .then(|| unsupported(&["Exact", "NotOlderThan", ""][..])),
            (matching == "Exact" && version == "0")
                .then(|| forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")),
        ]
    };
    let causes: Vec<Cause> = causes.into_iter().flatten().collect();
    if causes.is_empty() {
        return Ok(());
    }
    let about = StatusDetails { group: "meta.k8s.io", kind: "ListOptions", name: "" };
    Err(ApiError::invalid(about, &causes))
}

fn snapshot_at(call: &Call<'_>, asked: Option<u64>, limit: Option<usize>) -> Result<Snapshot, ApiError> {
    let namespace = call.path.namespace.as_deref();
    let store = &call.state.store;
    let table = &call.resource.table;
    let matching = call.request.query.get("resourceVersionMatch").unwrap_or_default();
    let Some(asked) = asked.filter(|a| *a > 0) else {
        return Ok(store.list(table, namespace));
    };
    check_reached(asked, store.revision())?;
    // with a limit and no match rule, kube-apiserver reads exactly that revision
    if matching == "Exact" || (matching.is_empty() && limit.is_some()) {
        return store
            .list_at(table, namespace, asked)
            .map_err(|_| ApiError::expired("The resourceVersion for the provided list is too old."));
    }
    Ok(store.list(table, namespace))
}

/// Returns the token with which a list continues after an object.
pub(crate) fn continue_after(revision: u64, after: Key) -> String {
    Token { revision, after }.encode()
}

/// Parses a revision in a query.
pub(crate) fn parse_revision(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax")
    })
}

/// Refuses revisions of the future. kube-apiserver waits three seconds first. Here every write is visible at once, so a wait
/// would not help.
pub(crate) fn check_reached(asked: u64, current: u64) -> Result<(), ApiError> {
    if asked <= current {
        return Ok(());
    }
    let mut error = ApiError::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {asked}, current: {current}"),
    );
    error.retry_after = Some(1);
    error.details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    })
    .as_object()
    .cloned();
    Err(error)
}

/// Refuses a token that no list has returned.
pub(crate) fn check_token(text: &str) -> Result<(), ApiError> {
    Token::decode(text).map(drop)
}

/// The position where a chunked list continues.
struct Token {
    revision: u64,
    after: Key,
}

// === impl Token ===

impl Token {
    fn encode(&self) -> String {
        let text = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": [self.after.namespace, self.after.name]});
        TOKENS.encode(text.to_string())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let refuse = |why: &str| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let text = text.trim_end_matches('=');
        let bytes = TOKENS.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len().saturating_sub(1),
            };
            refuse(&format!("illegal base64 data at input byte {at}"))
        })?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            refuse(&match bytes.first() {
                Some(byte) => {
                    format!("invalid character '{}' looking for beginning of value", go_char(*byte))
                }
                None => "unexpected end of JSON input".to_owned(),
            })
        })?;
        let part = |index: usize| value["start"][index].as_str().map(str::to_owned);
        match (value["rv"].as_u64(), part(0), part(1)) {
            (Some(revision), Some(namespace), Some(name)) => {
                Ok(Self { revision, after: Key { namespace, name } })
            }
            _ => Err(refuse("no position in it")),
        }
    }
}

fn go_char(byte: u8) -> String {
    if (0x20..0x7f).contains(&byte) { char::from(byte).to_string() } else { format!("\\u{byte:04x}") }
}
