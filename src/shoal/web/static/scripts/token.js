// The token that every form sends, for what scripts send without one.
export const token = () => JSON.parse(document.body.getAttribute("hx-headers"))["X-Form-Token"];
