//! Values of parameters and results: text, or the binary form of a type.

/// A value that is not NULL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// In text form, the only form in a log.
    Text(Box<str>),
    /// In the binary form of its type.
    Binary(Box<[u8]>),
}

impl Parameter {
    /// Returns the same value, borrowed.
    #[inline]
    pub fn borrowed(&self) -> ParameterRef<'_> {
        match self {
            Parameter::Text(text) => ParameterRef::Text(text),
            Parameter::Binary(bytes) => ParameterRef::Binary(bytes),
        }
    }

    /// Returns the bytes of the value, in either form.
    pub fn as_bytes(&self) -> &[u8] {
        self.borrowed().as_bytes()
    }

    /// Returns the value as text, as [`ParameterRef::readable`] does.
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

/// A value that is not NULL, borrowed from a [`Parameter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParameterRef<'a> {
    /// In text form.
    Text(&'a str),
    /// In the binary form of its type.
    Binary(&'a [u8]),
}

impl<'a> ParameterRef<'a> {
    /// Returns the bytes of the value, in either form.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            ParameterRef::Text(text) => text.as_bytes(),
            ParameterRef::Binary(bytes) => bytes,
        }
    }

    /// Returns the text of a value in text form.
    #[inline]
    pub fn text(self) -> Option<&'a str> {
        match self {
            ParameterRef::Text(text) => Some(text),
            ParameterRef::Binary(_) => None,
        }
    }

    /// Returns the bytes of a value in binary form.
    #[inline]
    pub fn binary(self) -> Option<&'a [u8]> {
        match self {
            ParameterRef::Text(_) => None,
            ParameterRef::Binary(bytes) => Some(bytes),
        }
    }

    /// Returns the value as text, if it is text in either form. The binary form of text, varchar, name and
    /// json is the text itself.
    pub fn readable(self) -> Option<&'a str> {
        match self {
            ParameterRef::Text(text) => Some(text),
            ParameterRef::Binary(bytes) => std::str::from_utf8(bytes).ok(),
        }
    }

    /// Returns the same value, owned.
    pub fn to_parameter(self) -> Parameter {
        match self {
            ParameterRef::Text(text) => Parameter::Text(text.into()),
            ParameterRef::Binary(bytes) => Parameter::Binary(bytes.into()),
        }
    }
}
