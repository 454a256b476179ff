package timeline

// ReadProperties parses the bytes of a properties file, without the reading around it.
var ReadProperties = readProperties
