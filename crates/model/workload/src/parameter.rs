//! The values that a statement is executed with, and that it returns: text, or a type's binary form.

/// A value that is not NULL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// In text form. All that a log knows.
    Text(Box<str>),
    /// In the binary form of its type.
    Binary(Box<[u8]>),
}

impl Parameter {
    /// The same value, borrowed.
    #[inline]
    pub fn borrowed(&self) -> ParameterRef<'_> {
        match self {
            Parameter::Text(text) => ParameterRef::Text(text),
            Parameter::Binary(bytes) => ParameterRef::Binary(bytes),
        }
    }

    /// The bytes that stand for it.
    pub fn as_bytes(&self) -> &[u8] {
        self.borrowed().as_bytes()
    }

    /// What can be read of it, as [`ParameterRef::readable`].
    pub fn readable(&self) -> Option<&str> {
        self.borrowed().readable()
    }
}

impl From<&str> for Parameter {
    fn from(text: &str) -> Self {
        Parameter::Text(text.into())
    }
}

impl From<String> for Parameter {
    fn from(text: String) -> Self {
        Parameter::Text(text.into())
    }
}

impl From<Box<str>> for Parameter {
    fn from(text: Box<str>) -> Self {
        Parameter::Text(text)
    }
}

impl From<&[u8]> for Parameter {
    fn from(bytes: &[u8]) -> Self {
        Parameter::Binary(bytes.into())
    }
}

/// A value that is not NULL, borrowed; as [`Parameter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParameterRef<'a> {
    /// In text form.
    Text(&'a str),
    /// In the binary form of its type.
    Binary(&'a [u8]),
}

impl<'a> ParameterRef<'a> {
    /// The bytes that stand for it.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            ParameterRef::Text(text) => text.as_bytes(),
            ParameterRef::Binary(bytes) => bytes,
        }
    }

    /// Its text form, if that is what it is in.
    #[inline]
    pub fn text(self) -> Option<&'a str> {
        match self {
            ParameterRef::Text(text) => Some(text),
            ParameterRef::Binary(_) => None,
        }
    }

    /// Its bytes, if they are in binary form.
    #[inline]
    pub fn binary(self) -> Option<&'a [u8]> {
        match self {
            ParameterRef::Text(_) => None,
            ParameterRef::Binary(bytes) => Some(bytes),
        }
    }

    /// What can be read of it: its text, or its bytes where they are one (the binary form of text,
    /// varchar, name and json is the text itself).
    pub fn readable(self) -> Option<&'a str> {
        match self {
            ParameterRef::Text(text) => Some(text),
            ParameterRef::Binary(bytes) => std::str::from_utf8(bytes).ok(),
        }
    }

    /// The same value, with space of its own.
    pub fn to_parameter(self) -> Parameter {
        match self {
            ParameterRef::Text(text) => Parameter::Text(text.into()),
            ParameterRef::Binary(bytes) => Parameter::Binary(bytes.into()),
        }
    }
}
