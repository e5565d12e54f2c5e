//! Options on the context that comments of statements name.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sql::ContextKey;

/// Parses the name of a part of a context.
pub fn context_key() -> impl TypedValueParser<Value = ContextKey> {
    let names = ContextKey::ALL.map(ContextKey::name);
    PossibleValuesParser::new(names)
        .map(|name| ContextKey::from_name(&name).expect("it is one of the names"))
}
