// Shows the number of unread notifications and messages on the icon of the installed app.
export default function badge(link) {
  const { unread = 0 } = link.dataset;
  (Number(unread) ? navigator.setAppBadge?.(Number(unread)) : navigator.clearAppBadge?.())?.catch(() => {});
}
