//! The version that every document carries, and reading with that version in mind.
//!
//! The rule: a field may be added without a new version, because readers ignore fields they do
//! not know and every added field has a default. Removing a field, or changing what one means,
//! takes a new version. A document from the future is refused rather than half understood.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The version this crate writes, and the newest it can read.
pub const SCHEMA_VERSION: u32 = 1;

/// Why a document could not be read.
#[derive(Debug)]
pub enum SchemaError {
    /// The text is not JSON, or a field has the wrong shape.
    Malformed(serde_json::Error),
    /// The text is JSON but carries no schema version: it is not one of our documents.
    Unversioned,
    /// The document is of another kind than the one asked for.
    WrongKind {
        /// What the caller wanted to read.
        wanted: &'static str,
        /// What the document says it is.
        found: String,
    },
    /// The document was written by a newer toolbox.
    TooNew {
        /// The version that the document carries.
        version: u64,
    },
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "not a valid document: {error}"),
            Self::Unversioned => f.write_str("no schema_version: not a document of this toolbox"),
            Self::WrongKind { wanted, found } => {
                write!(f, "a document of kind \"{found}\", where \"{wanted}\" is needed")
            }
            Self::TooNew { version } => write!(
                f,
                "schema version {version} is newer than the {SCHEMA_VERSION} this toolbox reads"
            ),
        }
    }
}

impl std::error::Error for SchemaError {}

/// A document that can be written to a file of its own.
pub trait Document: Serialize + DeserializeOwned {
    /// The value of its `kind` field.
    const KIND: &'static str;
}

/// Reads a document, refusing one that is newer than this crate or of another kind.
pub fn from_json<D: Document>(text: &str) -> Result<D, SchemaError> {
    let value = versioned(text)?;
    let found = kind(&value);
    if found != D::KIND {
        return Err(SchemaError::WrongKind { wanted: D::KIND, found: found.to_owned() });
    }
    serde_json::from_value(value).map_err(SchemaError::Malformed)
}

/// The kind of a document that is not newer than this crate.
pub fn kind_of(text: &str) -> Result<String, SchemaError> {
    versioned(text).map(|value| kind(&value).to_owned())
}

fn versioned(text: &str) -> Result<Value, SchemaError> {
    let value: Value = serde_json::from_str(text).map_err(SchemaError::Malformed)?;
    let version = value.get("schema_version").and_then(Value::as_u64);
    let version = version.ok_or(SchemaError::Unversioned)?;
    if version > u64::from(SCHEMA_VERSION) {
        return Err(SchemaError::TooNew { version });
    }
    Ok(value)
}

fn kind(value: &Value) -> &str {
    value.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// A document with its kind and the schema version in front.
#[derive(Serialize)]
struct Versioned<'a, D> {
    schema_version: u32,
    kind: &'static str,
    #[serde(flatten)]
    document: &'a D,
}

impl<'a, D: Document> Versioned<'a, D> {
    fn new(document: &'a D) -> Self {
        Self { schema_version: SCHEMA_VERSION, kind: D::KIND, document }
    }
}

/// Writes a document as indented JSON with its kind and the schema version in front.
pub fn to_json<D: Document>(document: &D) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&Versioned::new(document))?;
    text.push('\n');
    Ok(text)
}

/// Writes a document that is one of many as a single line of JSON.
pub fn to_json_line<D: Document>(document: &D) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(&Versioned::new(document))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        text: String,
        #[serde(default)]
        added_later: u32,
    }

    impl Document for Note {
        const KIND: &'static str = "note";
    }

    #[test]
    fn a_document_comes_back_as_it_was_written() {
        let note = Note { text: "hello".into(), added_later: 7 };
        let text = to_json(&note).expect("serialises");
        assert!(text.starts_with("{\n  \"schema_version\": 1,\n  \"kind\": \"note\","));
        assert_eq!(from_json::<Note>(&text).expect("reads"), note);
    }

    #[test]
    fn one_of_many_documents_is_a_line_and_comes_back() {
        let note = Note { text: "a\nb".into(), added_later: 7 };
        let text = to_json_line(&note).expect("serialises");
        assert_eq!(text.lines().count(), 1);
        assert_eq!(from_json::<Note>(&text).expect("reads"), note);
    }

    #[test]
    fn an_old_reader_ignores_a_field_that_it_does_not_know() {
        let text = r#"{"schema_version":1,"kind":"note","text":"x","from_the_future":[1]}"#;
        assert_eq!(from_json::<Note>(text).expect("reads").text, "x");
    }

    #[test]
    fn a_new_reader_fills_in_a_field_that_old_data_lacks() {
        let text = r#"{"schema_version":1,"kind":"note","text":"x"}"#;
        assert_eq!(from_json::<Note>(text).expect("reads").added_later, 0);
    }

    #[test]
    fn a_document_of_a_newer_version_is_refused_and_the_reason_names_it() {
        let error = from_json::<Note>(r#"{"schema_version":9,"kind":"note","text":"x"}"#)
            .expect_err("must be refused");
        assert_eq!(error.to_string(), "schema version 9 is newer than the 1 this toolbox reads");
    }

    #[test]
    fn a_document_of_another_kind_or_without_a_version_is_refused() {
        let other = from_json::<Note>(r#"{"schema_version":1,"kind":"bench"}"#);
        assert!(matches!(other, Err(SchemaError::WrongKind { .. })));
        let bare = from_json::<Note>(r#"{"kind":"note","text":"x"}"#);
        assert!(matches!(bare, Err(SchemaError::Unversioned)));
    }
}
