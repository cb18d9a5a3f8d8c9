// The form token, for requests that scripts send without a form.
export const token = () => JSON.parse(document.body.getAttribute("hx-headers"))["X-Form-Token"];
